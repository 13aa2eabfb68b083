# SPDX-License-Identifier: Apache-2.0
"""HTTP requests to a server under test."""

import base64
import http.client


def basic(user, password):
    """The field that says who asks."""
    both = f"{user}:{password}".encode()
    return {"Authorization": "Basic " + base64.b64encode(both).decode()}


def ask(server, target, method="GET", headers=None, body=None, port=None):
    """The response's status, fields and text."""
    address = (server.address[0], port or server.port)
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request(method, target, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()
