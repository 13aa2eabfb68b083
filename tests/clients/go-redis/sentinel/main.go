// SPDX-License-Identifier: Apache-2.0

// Writes 1, 2, 3, ... through Sentinel (SENTINELS="26379 26380") with the client's own settings
// until its standard input ends, and prints each number that was answered.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	var sentinels []string
	for _, port := range strings.Fields(os.Getenv("SENTINELS")) {
		sentinels = append(sentinels, "127.0.0.1:"+port)
	}
	r := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: os.Getenv("MASTER"), SentinelAddrs: sentinels})
	ended := make(chan bool)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for number := 1; ; number++ {
		select {
		case <-ended:
			return
		default:
		}
		if err := r.SAdd(context.Background(), os.Getenv("KEY"), number).Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(20 * time.Millisecond)
			continue
		}
		fmt.Println(number)
	}
}
