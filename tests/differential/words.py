# SPDX-License-Identifier: Apache-2.0
"""Arguments at the edges of what is valid."""

INTS = [
    *[b"0", b"1", b"-1", b"2", b"7", b"100", b"-100", b"9223372036854775807", b"4294967296"],
    *[b"-9223372036854775808", b"9223372036854775808", b"-9223372036854775809"],
    *[b"+1", b"01", b" 1", b"1 ", b"", b"1.5", b"abc", b"-0", b"99999999999999999999"],
    *[b"1e3", b"0x1f"],
]
FLOATS = [
    *[b"0", b"0.1", b"-0.1", b"1.5", b"3", b"1e3", b"-1e-3", b"5.0e2", b"1e17", b"123456789.125"],
    *[b"inf", b"-inf", b"nan", b"", b"abc", b" 1", b"1 ", b"1e400", b"0x1p3", b"1e-20", b".5"],
    *[b"5.", b"+2", b"--1", b"12345678901234567890"],
]
ODD = [
    *[b"", b" ", b"\0", b"a\0b", b"\r\n", b"a\r\nb", b"\n", b"\t", b"\xff\xfe", b"\xc3\x28"],
    *[b"\xe2\x82\xac", b"'", b'"', b"%s%n%d", b"*", b"|", b"get|x"],
    *[b"x" * 127, b"x" * 128, b"x" * 129, b"y" * 3000],
]

# Absolute deadlines that no run of the tests will see. One tick apart, for GT and LT.
FAR = [b"33177117420", b"33177117421", b"33177117422"]
FAR_MS = [b"33177117420001", b"33177117420002", b"33177117420500", b"33177117421999"]
NOW_MS = 2_000_000_000_000  # later than any run of these tests, earlier than any of FAR
