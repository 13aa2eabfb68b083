# SPDX-License-Identifier: Apache-2.0
"""The differential tester: random commands to ours and to redis-server, replies compared.

words.py       numbers, floats and strings at the edges of what is valid
grammar.py     puts commands together, mutates them, forms transactions
grammars/      what each family of commands looks like; one module each
compare.py     in what two correct servers may differ
pair.py        sends to both, and reduces what differs to the shortest sequence
test_*.py      the tests; docs/testing.md says how to run them for longer
"""
