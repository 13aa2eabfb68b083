# SPDX-License-Identifier: Apache-2.0
"""--take_over: a real new process, and both sides of the talk as Python speaks it."""

import contextlib
import os
import socket
import subprocess
import threading
import time

from .resp import RespSocket, encode
from .server import PATIENCE_S, environment, wait_until


def pid_file(server):
    return os.path.join(server.dir, "pid")


class NewProcess:
    """It is to take over from `server`, in the same directory; with other flags, if there are."""

    def __init__(self, server, wrapper=(), target=None, **changes):
        self.server = server
        self.old = server.process
        self.log_path = os.path.join(server.dir, f"new-{time.monotonic_ns()}.log")
        before = dict(server.flags)
        server.flags.update(changes)
        self.flags = dict(server.flags)
        line = [*wrapper, *server.command_line(), f"--take_over={target or pid_file(server)}"]
        server.flags = before
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=server.dir,
                env=environment(),
            )

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def fails(self):
        """It has ended, and says why."""
        assert self.process.wait(PATIENCE_S) == 1, self.log()
        return self.log()

    def await_taken(self):
        """The server is this process from now on."""
        assert self.old.wait(PATIENCE_S) == 0, self.log()
        self.server.check_log()
        self.server.process, self.server.log_path = self.process, self.log_path
        self.server.flags = self.flags

        def is_there():
            assert self.process.poll() is None, self.log()
            with open(pid_file(self.server)) as f:
                return f.read().strip() == str(self.process.pid)

        wait_until(is_there, what="the new process")


def take_over(server, **changes):
    new = NewProcess(server, **changes)
    new.await_taken()
    return new


def address_of(pid):
    return f"\0dragonfly-take-over-{pid}"


class Channel:
    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(PATIENCE_S)

    def say(self, text, fd=None):
        if fd is None:
            self.sock.send(text.encode())
        else:
            socket.send_fds(self.sock, [text.encode()], [fd])

    def hear(self):
        """A text, None at the end, and a descriptor or None."""
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 18, 1)
        return (data.decode() if data else None), (fds[0] if fds else None)

    def hear_until(self, word):
        """All that comes until that."""
        heard = []
        while True:
            text, fd = self.hear()
            assert text is not None, heard
            heard.append((text, fd))
            if text.split(" ")[0] == word:
                return heard

    def close(self):
        self.sock.close()


class FakeNew(contextlib.ExitStack):
    """A new process that does as it is told; it never serves."""

    def __init__(self, server):
        super().__init__()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(address_of(server.pid))
        self.channel = Channel(sock)
        self.callback(self.channel.close)
        self.fds = []
        self.callback(lambda: [os.close(fd) for fd in self.fds])

    def hello(self):
        self.channel.say("take-over 1")
        heard = self.channel.hear_until("told")
        assert heard[0][0] == "stream"
        self.stream = RespSocket.__new__(RespSocket)
        self.stream.sock = socket.socket(fileno=heard[0][1])
        self.stream.sock.settimeout(PATIENCE_S)
        self.stream._buf, self.stream._pos = bytearray(), 0
        self.callback(self.stream.close)
        return [text for text, _ in heard[1:-1]]

    def follow(self):
        """Takes a copy, and acknowledges all that comes from then on."""
        stream = self.stream
        assert stream.call("REPLCONF", "capa", "eof", "capa", "psync2").text == "OK"
        stream.send_command("PSYNC", "?", "-1")
        words = stream.read_line().split()
        assert words[0] == b"+FULLRESYNC", words
        self.offset = int(words[2])
        line = stream.read_line()
        while not line:
            line = stream.read_line()
        mark = line.removeprefix(b"$EOF:")
        seen = b""
        while not seen.endswith(mark):
            seen = seen[-len(mark) :] + stream.read_bytes(1)
        stream.send_command("REPLCONF", "ACK", self.offset)
        threading.Thread(target=self._acknowledge, daemon=True).start()

    def _acknowledge(self):
        with contextlib.suppress(OSError):
            while True:
                words = self.stream.read()
                if words[0] == b"REPLCONF":
                    self.stream.send_command("REPLCONF", "ACK", self.offset)
                self.offset += len(encode(*words))

    def sync(self):
        """The old process stands still. What it says of itself."""
        self.channel.say("ready")
        heard = self.channel.hear_until("synced")
        self.fds += [fd for _, fd in heard if fd is not None]
        return [text for text, _ in heard]


class FakeOld:
    """Somebody who listens as an old process does: `talk(channel)` is called on a thread."""

    def __init__(self, folder, talk):
        self.path = os.path.join(folder, "old-pid")
        with open(self.path, "w") as f:
            f.write(f"{os.getpid()}\n")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.bind(address_of(os.getpid()))
        self.sock.listen(1)
        self.errors = []
        self.thread = threading.Thread(target=self._run, args=(talk,))
        self.thread.start()

    def _run(self, talk):
        channel = Channel(self.sock.accept()[0])
        try:
            assert channel.hear()[0] == "take-over 1"
            talk(channel)
        except Exception as e:
            self.errors.append(e)
        channel.close()

    def end(self):
        self.thread.join(PATIENCE_S)
        self.sock.close()
        assert not self.errors, self.errors


class Between(FakeOld):
    """Stands between an old process and a new one, whose `target` is `path`. What each says goes
    along, but for `word` of the new one: that waits for pass_on()."""

    def __init__(self, folder, server, word):
        self.server, self.word = server, word
        self.is_held, self.goes_on = threading.Event(), threading.Event()
        self.is_dropped = False
        super().__init__(folder, self._pass)

    def _pass(self, new):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(address_of(self.server.pid))
        old = Channel(sock)
        old.say("take-over 1")
        back = threading.Thread(target=self._carry, args=(old, new))
        back.start()
        self._carry(new, old)
        back.join()
        old.close()

    def _carry(self, here, there):
        with contextlib.suppress(OSError):
            while True:
                text, fd = here.hear()
                if text is None:
                    break
                if text.split(" ")[0] == self.word and not self.goes_on.is_set():
                    self.is_held.set()
                    self.goes_on.wait(PATIENCE_S)
                    if self.is_dropped:
                        break
                there.say(text, fd)
                if fd is not None:
                    os.close(fd)
        for channel in (here, there):
            with contextlib.suppress(OSError):
                channel.sock.shutdown(socket.SHUT_RDWR)

    def await_held(self):
        assert self.is_held.wait(PATIENCE_S), f"nobody has said {self.word}"

    def pass_on(self):
        self.goes_on.set()

    def drop(self):
        """The word does not come, and nothing behind it."""
        self.is_dropped = True
        self.goes_on.set()

    def end(self):
        self.goes_on.set()
        super().end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
