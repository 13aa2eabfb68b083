// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// What the longest command may take before the server counts as hung.
const replyTimeout = 30 * time.Second

// conn is one RESP2 connection. Replies are told as text: "+OK", "-ERR ...", ":1", "$value", "nil",
// "[$a nil]".
type conn struct {
	socket net.Conn
	in     *bufio.Reader
}

func dial(address string) (*conn, error) {
	socket, err := net.DialTimeout("tcp", address, replyTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{socket, bufio.NewReader(socket)}, nil
}

func (c *conn) close() { c.socket.Close() }

// pipeline sends the commands in one write and returns their replies; with an error, those that have
// come before it.
func (c *conn) pipeline(commands ...[]string) ([]string, error) {
	var out strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&out, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if err := c.socket.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c.socket, out.String()); err != nil {
		return nil, err
	}
	var replies []string
	for range commands {
		reply, err := c.read()
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

func (c *conn) call(args ...string) (string, error) {
	replies, err := c.pipeline(args)
	if err != nil {
		return "", err
	}
	return replies[0], nil
}

func (c *conn) read() (string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("an empty line is no reply")
	}
	switch line[0] {
	case '+', '-', ':':
		return line, nil
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		if size < 0 {
			return "nil", nil
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(c.in, data); err != nil {
			return "", err
		}
		return "$" + string(data[:size]), nil
	case '*':
		count, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		if count < 0 {
			return "nil", nil
		}
		items := make([]string, count)
		for i := range items {
			if items[i], err = c.read(); err != nil {
				return "", err
			}
		}
		return array(items), nil
	}
	return "", fmt.Errorf("not a reply: %q", line)
}

func array(items []string) string { return "[" + strings.Join(items, " ") + "]" }
