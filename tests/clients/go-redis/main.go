// SPDX-License-Identifier: Apache-2.0

// What a program does with go-redis, in both protocols. PORT, and CLUSTER_PORT if there is one.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func equal(got, want any) {
	if !reflect.DeepEqual(got, want) {
		log.Panicf("%v, not %v", got, want)
	}
}

func plain(r *redis.Client) {
	equal(must(r.Set(ctx, "s", "1", 0).Result()), "OK")
	equal(must(r.Incr(ctx, "s").Result()), int64(2))
	must(r.HSet(ctx, "h", "a", "1", "b", "2").Result())
	equal(must(r.HGetAll(ctx, "h").Result()), map[string]string{"a": "1", "b": "2"})
	must(r.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}, redis.Z{Score: 2, Member: "n"}).Result())
	scored := must(r.ZRangeWithScores(ctx, "z", 0, -1).Result())
	equal(scored, []redis.Z{{Score: 1.5, Member: "m"}, {Score: 2, Member: "n"}})
	for i := 0; i < 300; i++ {
		must(r.SAdd(ctx, "set", i).Result())
	}
	found := map[string]bool{}
	members := r.SScan(ctx, "set", 0, "", 10).Iterator()
	for members.Next(ctx) {
		found[members.Val()] = true
	}
	equal(len(found), 300)
	id := must(r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []string{"f", "v"}}).Result())
	must(r.XGroupCreate(ctx, "x", "g", "0").Result())
	read := must(r.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: "g", Consumer: "c", Streams: []string{"x", ">"}, Count: 1}).Result())
	equal(read[0].Messages[0].ID, id)
	equal(must(r.XAck(ctx, "x", "g", id).Result()), int64(1))
}

func pipelines(r *redis.Client) {
	var values []*redis.StringCmd
	must(r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			p.Set(ctx, fmt.Sprint("p", i), i, 0)
			values = append(values, p.Get(ctx, fmt.Sprint("p", i)))
		}
		return nil
	}))
	for i, value := range values {
		equal(value.Val(), strconv.Itoa(i))
	}
}

func transactions(r *redis.Client) {
	must(r.Set(ctx, "n", 1, 0).Result())
	change := func(interferes bool) error {
		return r.Watch(ctx, func(tx *redis.Tx) error {
			value := must(tx.Get(ctx, "n").Int())
			if interferes {
				must(r.Set(ctx, "n", 100, 0).Result())
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "n", value+1, 0)
				return nil
			})
			return err
		}, "n")
	}
	equal(change(false), nil)
	equal(change(true), redis.TxFailedErr)
	equal(must(r.Get(ctx, "n").Result()), "100")
}

func pubsub(r *redis.Client) {
	s := r.Subscribe(ctx, "news")
	defer s.Close()
	must(s.Receive(ctx))
	if err := s.PSubscribe(ctx, "n*"); err != nil {
		log.Panic(err)
	}
	must(s.Receive(ctx))
	for i := 0; i < 50; i++ {
		equal(must(r.Publish(ctx, "news", i).Result()), int64(2))
	}
	next, patterns := 0, 0
	for next+patterns < 100 {
		message := must(s.ReceiveMessage(ctx))
		if message.Pattern != "" {
			patterns++
			continue
		}
		equal(message.Payload, strconv.Itoa(next))
		next++
	}
	equal(next, 50)
}

func scripts(r *redis.Client) {
	must(r.ScriptFlush(ctx).Result())
	add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	equal(must(add.Run(ctx, r, []string{"counter"}, 5).Result()), int64(5))
	equal(must(add.Run(ctx, r, []string{"counter"}, 5).Result()), int64(10))
}

func blocking(r *redis.Client) {
	popped := make(chan []string)
	go func() { popped <- must(r.BLPop(ctx, 10*time.Second, "empty", "queue").Result()) }()
	must(r.RPush(ctx, "queue", "a", "b").Result())
	equal(<-popped, []string{"queue", "a"})
	equal(must(r.BLMove(ctx, "queue", "done", "LEFT", "RIGHT", 10*time.Second).Result()), "b")
	_, err := r.BLPop(ctx, time.Second, "empty").Result()
	equal(err, redis.Nil)
}

func cluster(port string) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}})
	defer c.Close()
	var values []*redis.StringCmd
	must(c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := 0; i < 200; i++ {
			p.Set(ctx, fmt.Sprint("c", i), i, 0)
			values = append(values, p.Get(ctx, fmt.Sprint("c", i)))
		}
		return nil
	}))
	for i, value := range values {
		equal(value.Val(), strconv.Itoa(i))
	}
	must(c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "{t}a", 1, 0)
		p.Incr(ctx, "{t}a")
		return nil
	}))
	equal(must(c.Get(ctx, "{t}a").Result()), "2")
	equal(must(c.ClusterSlots(ctx).Result())[0].End, 16383)
}

func main() {
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("PORT"), Protocol: protocol})
		must(r.FlushAll(ctx).Result())
		for _, step := range []func(*redis.Client){
			plain, pipelines, transactions, pubsub, scripts, blocking} {
			step(r)
		}
		r.Close()
	}
	if port := os.Getenv("CLUSTER_PORT"); port != "" {
		cluster(port)
	}
}
