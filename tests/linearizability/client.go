// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// client carries operations out on its connection and records them.
type client struct {
	conn   *conn
	number int
	prefix string // of the history's keys
	clock  time.Time
	broken bool // carries commands out in steps; see inSteps

	history []porcupine.Operation
	last    map[string]string // broken: what GET saw last
}

func (c *client) now() int64 { return time.Since(c.clock).Nanoseconds() }

func (c *client) record(op operation, called, returned int64, reply string) {
	c.history = append(c.history, porcupine.Operation{
		ClientId: c.number, Input: op, Call: called, Output: reply, Return: returned})
}

// wire is the command as the server gets it.
func (c *client) wire(op operation) []string {
	args := append([]string{}, op.Args...)
	for i := range args {
		if keyIndex(args[i]) >= 0 {
			args[i] = c.prefix + args[i]
		}
	}
	return args
}

// reply is the server's reply with the names that keys have in the history.
func (c *client) reply(text string) string { return strings.ReplaceAll(text, "$"+c.prefix, "$") }

func (c *client) run(ops []operation) error {
	if len(ops) == 1 && len(ops[0].Watched) > 0 {
		return c.compareAndSet(ops[0])
	}
	called := c.now()
	replies, err := c.send(ops)
	c.recordAll(ops, called, replies)
	return err
}

// recordAll also has those whose replies did not come: they may be carried out at any time, which
// is the same as never, if it is after all that has been seen.
func (c *client) recordAll(ops []operation, called int64, replies []string) {
	returned := c.now()
	for i, op := range ops {
		if i < len(replies) {
			c.record(op, called, returned, replies[i])
		} else {
			c.record(op, called, math.MaxInt64, unknown)
		}
	}
}

// reconnect waits for the end of the crash.
func (c *client) reconnect(k *crash) error {
	k.wait()
	c.conn.close()
	var err error
	c.conn, err = dial(*address)
	return err
}

// send carries the operations out as one pipeline.
func (c *client) send(ops []operation) ([]string, error) {
	if c.broken {
		var replies []string
		for _, op := range ops {
			reply, err := c.inSteps(op)
			if err != nil {
				return nil, err
			}
			replies = append(replies, reply)
		}
		return replies, nil
	}
	var commands [][]string
	for _, op := range ops {
		if op.name() != "EXEC" {
			commands = append(commands, c.wire(op))
			continue
		}
		commands = append(commands, []string{"MULTI"})
		for _, inner := range op.Body {
			commands = append(commands, c.wire(inner))
		}
		commands = append(commands, []string{"EXEC"})
	}
	all, err := c.conn.pipeline(commands...)
	var replies []string
	for _, op := range ops {
		if err != nil && len(all) < op.replyCount() {
			break
		}
		if op.name() == "EXEC" {
			want := append([]string{"+OK"}, strings.Fields(strings.Repeat("+QUEUED ", len(op.Body)))...)
			if got := array(all[:len(want)]); got != array(want) {
				return nil, fmt.Errorf("MULTI and its queue: %s", got)
			}
			all = all[len(want):]
		}
		replies = append(replies, c.reply(all[0]))
		all = all[1:]
	}
	return replies, err
}

// compareAndSet reads the keys before and after WATCH. No value comes twice in these histories: when
// both are equal then nothing has touched the keys since WATCH, so EXEC has to run if and only if
// they still have these values.
func (c *client) compareAndSet(op operation) error {
	read := func() ([]string, error) {
		var ops []operation
		for _, key := range op.Watched {
			ops = append(ops, command("GET", key))
		}
		called := c.now()
		replies, err := c.send(ops)
		c.recordAll(ops, called, replies)
		return replies, err
	}
	before, err := read()
	if err != nil {
		return err
	}
	if !c.broken {
		reply, err := c.conn.call(c.wire(with("WATCH", op.Watched))...)
		if err != nil || reply != "+OK" {
			return fmt.Errorf("WATCH: %s %v", reply, err)
		}
	}
	seen, err := read()
	if err != nil {
		return err
	}
	if array(before) != array(seen) {
		_, err := c.conn.call("UNWATCH")
		return err
	}
	op.Seen = seen
	called := c.now()
	replies, err := c.send([]operation{op})
	c.recordAll(one(op), called, replies)
	return err
}

// inSteps is what a server would do whose commands are not atomic, or whose reads are old: each
// history of such clients that overlaps enough has to be found out.
func (c *client) inSteps(op operation) (string, error) {
	plain := func(args ...string) (string, error) {
		reply, err := c.conn.call(c.wire(command(args...))...)
		return c.reply(reply), err
	}
	args := op.Args[1:]
	switch op.name() {
	case "GET":
		old, had := c.last[args[0]]
		reply, err := plain("GET", args[0])
		c.last[args[0]] = reply
		if had && len(c.history)%5 == 0 {
			return old, err
		}
		return reply, err
	case "INCR", "INCRBY":
		by := 1
		if len(args) > 1 {
			by, _ = strconv.Atoi(args[1])
		}
		reply, err := plain("GET", args[0])
		n, _ := strconv.Atoi(strings.TrimPrefix(reply, "$"))
		if err == nil {
			_, err = plain("SET", args[0], strconv.Itoa(n+by))
		}
		return number(n + by), err
	case "MSET":
		for i := 0; i < len(args); i += 2 {
			if _, err := plain("SET", args[i], args[i+1]); err != nil {
				return "", err
			}
		}
		return "+OK", nil
	case "MGET":
		var items []string
		for _, key := range args {
			reply, err := plain("GET", key)
			if err != nil {
				return "", err
			}
			items = append(items, reply)
		}
		return array(items), nil
	case "RENAME":
		value, err := plain("GET", args[0])
		if err != nil || value == "nil" {
			return noSuchKey, err
		}
		if _, err := plain("SET", args[1], value[1:]); err != nil {
			return "", err
		}
		_, err = plain("DEL", args[0])
		return "+OK", err
	case "HINCRBY", "ZINCRBY":
		name, by, get, mark := args[1], args[2], "HGET", ":"
		if op.name() == "ZINCRBY" {
			name, by, get, mark = args[2], args[1], "ZSCORE", "$"
		}
		reply, err := plain(get, args[0], name)
		n, _ := strconv.Atoi(strings.TrimPrefix(reply, "$"))
		m, _ := strconv.Atoi(by)
		sum := strconv.Itoa(n + m)
		if err == nil && get == "HGET" {
			_, err = plain("HSET", args[0], name, sum)
		} else if err == nil {
			_, err = plain("ZADD", args[0], sum, name)
		}
		return mark + sum, err
	case "SMOVE":
		reply, err := plain("SREM", args[0], args[2])
		if err == nil && reply == ":1" {
			_, err = plain("SADD", args[1], args[2])
		}
		return reply, err
	case "LPOP", "BLPOP":
		key := args[0]
		item, err := plain("LRANGE", key, "0", "0")
		if err != nil || item == "[]" {
			return "nil", err
		}
		_, err = plain("LTRIM", key, "1", "-1")
		if op.name() == "BLPOP" {
			return "[$" + key + " " + item[1:], err
		}
		return item[1 : len(item)-1], err
	case "LMOVE", "BLMOVE":
		item, err := plain(map[string]string{"LEFT": "LPOP", "RIGHT": "RPOP"}[args[2]], args[0])
		if err == nil && item != "nil" {
			_, err = plain(map[string]string{"LEFT": "LPUSH", "RIGHT": "RPUSH"}[args[3]], args[1], item[1:])
		}
		return item, err
	case "FLUSHALL":
		for i := 0; i < keyCount; i++ {
			if _, err := plain("DEL", fmt.Sprintf("k%d", i)); err != nil {
				return "", err
			}
		}
		return "+OK", nil
	case "EXEC":
		var items []string
		for _, inner := range op.Body {
			reply, err := plain(inner.Args...)
			if err != nil {
				return "", err
			}
			items = append(items, reply)
		}
		return array(items), nil
	}
	return plain(op.Args...)
}
