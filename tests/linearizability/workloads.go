// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"math/rand"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// workload makes the commands of a client: one operation, or several for one pipeline.
type workload struct {
	name     string
	model    porcupine.Model
	needs    string // a command the server has to know
	pipeline int    // operations at once: with fewer clients, as what overlaps is dear to check
	stays    bool   // not with --crashes: an operation without a reply may have done too many things
	next     func(g *generator) []operation
}

// generator belongs to one client of one history. Each value it writes is written once only, so a
// read tells which write it saw.
type generator struct {
	rng    *rand.Rand
	client int
	count  int
}

func (g *generator) value() string {
	g.count++
	return fmt.Sprintf("%d.%d", g.client, g.count)
}

func (g *generator) key(count int) string { return fmt.Sprintf("k%d", g.rng.Intn(count)) }

// keys picks so many different ones of k0 ... k(of-1).
func (g *generator) keys(count, of int) []string {
	var keys []string
	for _, i := range g.rng.Perm(of)[:count] {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	return keys
}

func (g *generator) pairs(keys []string) []string {
	var args []string
	for _, key := range keys {
		args = append(args, key, g.value())
	}
	return args
}

func (g *generator) end() string { return []string{"LEFT", "RIGHT"}[g.rng.Intn(2)] }

func with(name string, args []string) operation {
	return operation{Args: append([]string{name}, args...)}
}

// pick chooses one of the choices.
func pick(g *generator, choices ...func() operation) operation {
	return choices[g.rng.Intn(len(choices))]()
}

func one(op operation) []operation { return []operation{op} }

func register(g *generator) operation {
	return pick(g,
		func() operation { return command("GET", g.key(3)) },
		func() operation { return command("SET", g.key(3), g.value()) })
}

func counter(g *generator) operation {
	return pick(g,
		func() operation { return command("INCR", g.key(2)) },
		func() operation { return command("INCRBY", g.key(2), strconv.Itoa(g.rng.Intn(50)+2)) },
		func() operation { return command("GET", g.key(2)) })
}

func manyKeys(g *generator) operation {
	return pick(g,
		func() operation { return with("MSET", g.pairs(g.keys(4, 4))) },
		func() operation { return with("MSET", g.pairs(g.keys(2, 4))) },
		func() operation { return with("MGET", g.keys(4, 4)) },
		func() operation { return with("MGET", g.keys(4, 4)) },
		func() operation { return with("MGET", g.keys(2, 4)) })
}

func rename(g *generator) operation {
	return pick(g,
		func() operation { return with("RENAME", g.keys(2, 3)) },
		func() operation { return with("RENAME", g.keys(2, 3)) },
		func() operation { return with("RENAMENX", g.keys(2, 3)) },
		func() operation { return with("MGET", g.keys(3, 3)) },
		func() operation { return with("EXISTS", g.keys(3, 3)) },
		func() operation { return command("SET", g.key(3), g.value()) },
		func() operation { return command("GET", g.key(3)) })
}

func list(g *generator) operation {
	return pick(g,
		func() operation { return command("RPUSH", g.key(3), g.value()) },
		func() operation { return command("LPUSH", g.key(3), g.value(), g.value()) },
		func() operation { return command("LPOP", g.key(3)) },
		func() operation { return command("RPOP", g.key(3)) },
		func() operation { return command("LLEN", g.key(3)) },
		func() operation { return command("LRANGE", g.key(3), "0", "-1") })
}

func listMove(g *generator) operation {
	keys := g.keys(2, 3)
	return command("LMOVE", keys[0], keys[1], g.end(), g.end())
}

// blocking waits for one of several keys, or moves between two.
func blocking(g *generator, keyCount int) operation {
	const seconds = "0.01"
	return pick(g,
		func() operation { return with("BLPOP", append(g.keys(keyCount, 3), seconds)) },
		func() operation { return with("BLPOP", append(g.keys(1, 3), seconds)) },
		func() operation {
			keys := g.keys(2, 3)
			return command("BLMOVE", keys[0], keys[1], g.end(), g.end(), seconds)
		})
}

func member(g *generator) string { return fmt.Sprintf("m%d", g.rng.Intn(3)) }

func sum(g *generator) operation {
	by := strconv.Itoa(g.rng.Intn(50) + 1)
	hash, zset := g.key(2), fmt.Sprintf("k%d", 2+g.rng.Intn(2))
	return pick(g,
		func() operation { return command("HINCRBY", hash, member(g), by) },
		func() operation { return command("HGET", hash, member(g)) },
		func() operation { return command("HDEL", hash, member(g)) },
		func() operation { return command("ZINCRBY", zset, by, member(g)) },
		func() operation { return command("ZSCORE", zset, member(g)) },
		func() operation { return command("ZREM", zset, member(g)) })
}

func set(g *generator) operation {
	keys := g.keys(3, 3)
	return pick(g,
		func() operation { return command("SADD", keys[0], member(g)) },
		func() operation { return command("SREM", keys[0], member(g)) },
		func() operation { return command("SISMEMBER", keys[0], member(g)) },
		func() operation { return command("SCARD", keys[0]) },
		func() operation { return command("SMOVE", keys[0], keys[1], member(g)) },
		func() operation { return command("SMOVE", keys[0], keys[1], member(g)) },
		func() operation { return command("SINTERCARD", "2", keys[0], keys[1]) },
		func() operation { return with("SUNIONSTORE", keys) })
}

func addToLog(g *generator) operation { return command("XADD", g.key(2), "*", "v", g.value()) }

func log(g *generator) operation {
	return pick(g,
		func() operation { return addToLog(g) },
		func() operation { return addToLog(g) },
		func() operation { return exec(g, 2, addToLog) },
		func() operation { return exec(g, 2, addToLog) },
		func() operation { return command("XLEN", g.key(2)) },
		func() operation { return command("XRANGE", g.key(2), "-", "+") },
		func() operation { return command("XTRIM", g.key(2), "MAXLEN", "5") },
		func() operation { return command("XREAD", "STREAMS", "k0", "k1", "0", "0") },
		func() operation { return command("XREAD", "STREAMS", "k0", "k1", "0", "0") })
}

func exec(g *generator, count int, inner func(*generator) operation) operation {
	op := command("EXEC")
	for i := 0; i < count; i++ {
		op.Body = append(op.Body, inner(g))
	}
	return op
}

var workloads = []workload{
	{name: "registers", model: modelByKey, next: func(g *generator) []operation {
		return one(register(g))
	}},
	{name: "registers-pipelined", model: modelByKey, pipeline: 3, next: func(g *generator) []operation {
		return []operation{register(g), register(g), register(g)}
	}},
	{name: "counters", model: modelByKey, next: func(g *generator) []operation {
		return one(counter(g))
	}},
	{name: "mset-mget", model: model, next: func(g *generator) []operation {
		return one(manyKeys(g))
	}},
	{name: "mset-mget-pipelined", stays: true, model: model, pipeline: 3, next: func(g *generator) []operation {
		return []operation{manyKeys(g), register(g), manyKeys(g)}
	}},
	{name: "rename", model: model, next: func(g *generator) []operation {
		return one(rename(g))
	}},
	{name: "exec", model: model, next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return exec(g, 4, register) },
			func() operation { return exec(g, 3, rename) },
			func() operation { return exec(g, 2, manyKeys) },
			func() operation { return rename(g) },
			func() operation { return manyKeys(g) }))
	}},
	{name: "watch", model: model, next: func(g *generator) []operation {
		watched := g.keys(1+g.rng.Intn(2), 3)
		return one(pick(g,
			func() operation {
				op := command("EXEC")
				op.Body = one(with("MSET", g.pairs(g.keys(2, 3))))
				op.Watched = watched
				return op
			},
			func() operation {
				op := command("EXEC")
				op.Body = one(command("SET", watched[0], g.value()))
				op.Watched = watched
				return op
			},
			func() operation { return with("MGET", g.keys(3, 3)) },
			func() operation { return register(g) }))
	}},
	{name: "lists", model: model, next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return list(g) },
			func() operation { return list(g) },
			func() operation { return listMove(g) },
			func() operation { return exec(g, 2, list) }))
	}},
	{name: "flush", model: model, next: func(g *generator) []operation {
		if g.rng.Intn(6) == 0 {
			return one(command("FLUSHALL"))
		}
		return one(pick(g,
			func() operation { return manyKeys(g) },
			func() operation { return with("EXISTS", g.keys(4, 4)) },
			func() operation { return with("DEL", g.keys(2, 4)) },
			func() operation { return with("MSETNX", g.pairs(g.keys(2, 4))) }))
	}},
	{name: "blocking", stays: true, model: modelOfWaits, needs: "BLPOP", next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return blocking(g, 2) },
			func() operation { return blocking(g, 3) },
			func() operation { return list(g) },
			func() operation { return list(g) },
			func() operation { return listMove(g) }))
	}},
	// Without moves over shards the first key that is filled serves, as in Redis, so the strict rule holds:
	// at the moment at which a BLPOP takes effect there is nothing in the keys before the one it takes from.
	{name: "blocking-pushes", stays: true, model: model, needs: "BLPOP", next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return with("BLPOP", append(g.keys(2, 3), "0.01")) },
			func() operation { return with("BLPOP", append(g.keys(3, 3), "0.01")) },
			func() operation { return list(g) },
			func() operation { return list(g) }))
	}},
	{name: "hashes-zsets", model: modelByKey, needs: "ZINCRBY", next: func(g *generator) []operation {
		return one(sum(g))
	}},
	{name: "sets", model: model, needs: "SADD", next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return set(g) },
			func() operation { return set(g) },
			func() operation { return exec(g, 3, set) }))
	}},
	{name: "streams", stays: true, model: modelOfLogs, needs: "XADD", next: func(g *generator) []operation {
		return one(log(g))
	}},
	// Each waits for one key: of several that EXEC fills at once, Redis gives the one that was filled
	// first, and not the first that BLPOP names, as it does when it need not wait.
	{name: "blocking-exec", stays: true, model: model, needs: "BLPOP", next: func(g *generator) []operation {
		return one(pick(g,
			func() operation { return blocking(g, 1) },
			func() operation { return blocking(g, 1) },
			func() operation { return list(g) },
			func() operation { return listMove(g) },
			func() operation { return exec(g, 2, list) },
			func() operation { return exec(g, 3, list) }))
	}},
}
