# SPDX-License-Identifier: Apache-2.0
"""Random commands: mostly sensible, now and then with one argument too few, too many, or nonsense.

A family is a module of grammars/ with

    WEIGHT     how often the family is chosen, relative to the others
    COMMANDS   [(weight, function of a Grammar that returns a list of arguments)]
    VERBATIM   the same for commands that are only sent as they are, but for the case of letters:
               cut short, some of them would end the server, the connection, or the test
    EXCLUDED   functions of a command: does it do what two correct servers do differently?
    before     function of a command: what has to be sent before it, so that they do the same
"""

import itertools

from .grammars import FAMILIES
from .words import FAR, FAR_MS, FLOATS, INTS, ODD


def cased(rng, command, spared):
    """Letters of random case in all arguments but those that begin with `spared`."""
    return [
        bytes(c ^ 0x20 if chr(c).isalpha() and c < 128 and rng.random() < 0.5 else c for c in word)
        if not spared or not word.startswith(spared)
        else word
        for word in command
    ]


class Choice:
    """Weighted, with the sums ready."""

    def __init__(self, weighted):
        self.options = [option for _, option in weighted]
        self.sums = list(itertools.accumulate(weight for weight, _ in weighted))

    def pick(self, rng):
        return rng.choices(self.options, cum_weights=self.sums)[0]


class Grammar:
    def __init__(self, rng, families=None, modules=FAMILIES):
        """`families`: names of modules in grammars/; without, all of them."""
        self.rng = rng
        chosen = [f for name, f in modules.items() if not families or name in families]
        self.families = Choice([(f.WEIGHT, f) for f in chosen])
        self.commands = {f: Choice(f.COMMANDS) for f in chosen}
        self.verbatims = {f: Choice(f.VERBATIM) for f in chosen if getattr(f, "VERBATIM", None)}
        self.excluded = [test for f in modules.values() for test in getattr(f, "EXCLUDED", [])]
        self.befores = [f.before for f in modules.values() if hasattr(f, "before")]
        self.pools = [f.KEY for f in chosen if getattr(f, "KEY", None)]

    # Whole commands.

    def command(self):
        """Any, to be sent outside a transaction."""
        return self._allowed(self._any)

    def data_command(self):
        """One that may stand between MULTI and EXEC: no VERBATIM."""
        return self._allowed(self._mutated)

    def with_before(self, command):
        """What the families want to be sent before it, and it."""
        return [*(first for before in self.befores for first in before(command)), command]

    def block(self):
        """One command, or a whole transaction."""
        if self.rng.random() > 0.02:
            return self.with_before(self.command())
        count = self.rng.choice([0, 1, 2, 5, 20])
        inner = [c for _ in range(count) for c in self.with_before(self.data_command())]
        watch = [[b"WATCH", self.any_key()]] if self.rng.random() < 0.3 else []
        end = [b"EXEC"] if self.rng.random() < 0.9 else [b"DISCARD"]
        return [*watch, [b"MULTI"], *inner, end]

    def well_formed(self):
        """As the family's author wrote it."""
        return list(self.commands[self.families.pick(self.rng)].pick(self.rng)(self))

    def allows(self, command):
        return not any(is_excluded(command) for is_excluded in self.excluded)

    def _allowed(self, make):
        while True:
            made = make()
            if self.allows(made):
                return made

    def _any(self):
        rng = self.rng
        family = self.families.pick(rng)
        if family in self.verbatims and rng.random() < 0.6:
            made = list(self.verbatims[family].pick(rng)(self))
            return cased(rng, made, b"") if rng.randrange(8) == 0 else made
        return self._mutated()

    def _mutated(self):
        rng = self.rng
        made = self.well_formed()
        mutation = rng.randrange(60)
        if mutation == 0 and len(made) > 1:
            made.pop()
        elif mutation == 1:
            made.append(self.value())
        elif mutation == 2:
            made = cased(rng, made, b"k")
        elif mutation == 3 and len(made) > 1:
            made[rng.randrange(1, len(made))] = rng.choice(INTS + FLOATS)
        elif mutation == 4:
            made[rng.randrange(len(made))] = rng.choice(ODD)
        elif mutation == 5 and len(made) > 1:
            made.insert(rng.randrange(1, len(made) + 1), rng.choice(made))
        return made

    # Arguments that families share.

    def few(self, prefix, most=8):
        """One of a few names, the first ones more often, so that they are found again."""
        return prefix + b"%d" % min(self.rng.randrange(most), self.rng.randrange(most * 3 // 2))

    def key_of(self, prefix):
        """A key of one family; rarely of another, for wrong types."""
        return self.few(prefix) if self.rng.random() > 0.04 else self.any_key()

    def any_key(self):
        return self.few(self.rng.choice(self.pools) if self.pools else b"k")

    def times(self, make, counts=(1, 1, 1, 2, 5)):
        return [make() for _ in range(self.rng.choice(counts))]

    def flat(self, *makes, counts=(1, 1, 1, 2, 5)):
        """Groups of arguments, some of them: FIELD VALUE FIELD VALUE ..."""
        return [make() for _ in range(self.rng.choice(counts)) for make in makes]

    def maybe(self, *words, chance=0.3):
        return list(words) if self.rng.random() < chance else []

    def some(self, *groups, chance=0.25):
        """Each group of words or not, in this order."""
        return [word for group in groups if self.rng.random() < chance for word in group]

    def value(self):
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 0:
            return rng.choice(INTS)
        if kind == 1:
            return rng.choice(FLOATS)
        if kind == 2:
            return rng.randbytes(rng.choice([0, 1, 5, 14, 15, 16, 30, 32, 33, 200]))
        if kind == 3:
            return b"%d" % rng.randrange(-1000, 1000)
        if kind == 4 and rng.random() < 0.3:
            return rng.choice(ODD)
        return rng.choice([b"a", b"hello", b"x" * 15, b"y" * 17, b"long " * 10, b"v"])

    def element(self):
        """Few different ones, so that they are found again."""
        return self.rng.choice([b"a", b"b", b"", b"1", b"-1", b"300", b"x" * 70, self.value()])

    def integer(self, low, high, odd=0.1):
        """In [low, high), or rarely at an edge of what is one."""
        if self.rng.random() < odd:
            return self.rng.choice(INTS)
        return b"%d" % self.rng.randrange(low, high)

    def small(self):
        return self.integer(-20, 40, odd=0.15)

    def index(self):
        return self.integer(-8, 8)

    def floating(self):
        return self.rng.choice(FLOATS)

    def deadline(self):
        return self.rng.choice(FAR)

    def deadline_ms(self):
        return self.rng.choice(FAR_MS)

    def conditions(self):
        rng = self.rng
        return rng.choices(
            [b"NX", b"XX", b"GT", b"LT", b"gt", b"WHAT"],
            weights=[4, 4, 4, 4, 2, 1],
            k=rng.choice([0, 0, 1, 1, 2]),
        )

    def scan_options(self, pattern):
        return self.rng.choice(
            [
                *[[], [b"MATCH", pattern], [b"COUNT", self.small()], [b"MATCH"], [b"WHAT"]],
                *[[b"match", b"*", b"count", b"5"], [b"COUNT", b"0"], [b"TYPE", b"hash"]],
            ]
        )

    def odd(self):
        return self.rng.choice(self.rng.choice([ODD, ODD, INTS, FLOATS]))

    def odds(self, count_max=3):
        return [self.odd() for _ in range(self.rng.randint(0, count_max))]
