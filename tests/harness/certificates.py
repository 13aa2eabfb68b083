# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the openssl tool."""

import os
import ssl
import subprocess


class Certificates:
    """A CA and what it has signed, as files NAME.crt and NAME.key of one folder."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.make_ca("ca")
        self.make("server")
        self.make("client")

    def crt(self, name):
        return os.path.join(self.folder, name + ".crt")

    def key(self, name):
        return os.path.join(self.folder, name + ".key")

    def _openssl(self, *args):
        done = subprocess.run(
            ["openssl", *args], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def _new_key(self, name):
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name + ".key")

    def make_ca(self, name):
        self._new_key(name)
        files = ["-key", name + ".key", "-out", name + ".crt"]
        self._openssl("req", "-x509", "-new", *files, "-subj", f"/CN={name}", "-days", "10")

    def make(self, name, ca="ca", days=10, common_name=None):
        self._new_key(name)
        request, extensions = name + ".csr", os.path.join(self.folder, name + ".ext")
        with open(extensions, "w") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        subject = f"/CN={common_name or name}"
        self._openssl("req", "-new", "-key", name + ".key", "-out", request, "-subj", subject)
        signed_by = ["-CA", ca + ".crt", "-CAkey", ca + ".key", "-CAcreateserial"]
        files = ["-in", request, "-out", name + ".crt", "-extfile", extensions]
        self._openssl("x509", "-req", *files, *signed_by, "-days", str(days))

    def encrypt_key(self, name, passphrase):
        key = name + ".key"
        self._openssl("ec", "-in", key, "-out", key, "-aes128", "-passout", "pass:" + passphrase)

    def flags(self, name="server", **more):
        """Of a server with that certificate, which asks clients for one."""
        return {
            "tls_cert_file": self.crt(name),
            "tls_key_file": self.key(name),
            "tls_ca_cert_file": self.crt("ca"),
            **more,
        }

    def client(self, name="client", ca="ca", version=None):
        """What a client of Python's ssl module uses. `name` None: it has no certificate."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.crt(ca))
        if name is not None:
            context.load_cert_chain(self.crt(name), self.key(name))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context
