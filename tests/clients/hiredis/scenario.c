// SPDX-License-Identifier: Apache-2.0
// What a program does with hiredis. PORT. Debian's version has no RESP3.
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void Require(int is_right, const char* what, int line) {
  if (is_right) return;
  fprintf(stderr, "scenario.c:%d: %s\n", line, what);
  exit(1);
}
#define REQUIRE(condition) Require((condition) != 0, #condition, __LINE__)

static redisReply* last;

// The reply stays until the next one.
static redisReply* Read(redisContext* c) {
  if (last != NULL) freeReplyObject(last);
  last = NULL;
  REQUIRE(redisGetReply(c, (void**)&last) == REDIS_OK && last != NULL);
  return last;
}
static redisReply* Call(redisContext* c, const char* format, ...) {
  va_list list;
  va_start(list, format);
  REQUIRE(redisvAppendCommand(c, format, list) == REDIS_OK);
  va_end(list);
  return Read(c);
}
static int IsText(const redisReply* reply, const char* text) {
  return reply->str != NULL && strcmp(reply->str, text) == 0;
}

static redisContext* Connect(void) {
  redisContext* c = redisConnect("127.0.0.1", atoi(getenv("PORT")));
  REQUIRE(c != NULL && c->err == 0);
  const struct timeval limit = {20, 0};
  redisSetTimeout(c, limit);
  return c;
}

static void Plain(redisContext* c) {
  REQUIRE(IsText(Call(c, "SET %b %b", "a\0b", (size_t)3, "v\r\n", (size_t)3), "OK"));
  REQUIRE(Call(c, "GET %b", "a\0b", (size_t)3)->len == 3);
  REQUIRE(Call(c, "GET nothing")->type == REDIS_REPLY_NIL);
  REQUIRE(Call(c, "HSET h a 1 b 2")->integer == 2);
  REQUIRE(Call(c, "HGETALL h")->elements == 4);
  REQUIRE(Call(c, "ZADD z 1.5 m")->integer == 1);
  REQUIRE(IsText(Call(c, "ZSCORE z m"), "1.5"));
  REQUIRE(Call(c, "LPUSH h 1")->type == REDIS_REPLY_ERROR);
}

static void Pipelines(redisContext* c) {
  for (int i = 0; i < 1000; ++i) {
    redisAppendCommand(c, "SET p%d %d", i, i);
    redisAppendCommand(c, "INCR p%d", i);
  }
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(IsText(Read(c), "OK"));
    REQUIRE(Read(c)->integer == i + 1);
  }
}

static void Transactions(redisContext* c, redisContext* other) {
  REQUIRE(IsText(Call(c, "WATCH n"), "OK"));
  REQUIRE(IsText(Call(c, "MULTI"), "OK"));
  REQUIRE(IsText(Call(c, "SET n 1"), "QUEUED"));
  REQUIRE(IsText(Call(c, "GET n"), "QUEUED"));
  redisReply* replies = Call(c, "EXEC");
  REQUIRE(replies->elements == 2 && IsText(replies->element[1], "1"));
  Call(c, "WATCH n");
  redisReply* changed = redisCommand(other, "SET n 100");
  REQUIRE(changed != NULL && IsText(changed, "OK"));
  freeReplyObject(changed);
  Call(c, "MULTI");
  Call(c, "SET n 0");
  REQUIRE(Call(c, "EXEC")->type == REDIS_REPLY_NIL);
  REQUIRE(IsText(Call(c, "GET n"), "100"));
}

static void PubSub(redisContext* c) {
  redisContext* s = Connect();
  redisReply* reply = redisCommand(s, "SUBSCRIBE news");
  REQUIRE(reply != NULL && reply->elements == 3 && IsText(reply->element[0], "subscribe"));
  freeReplyObject(reply);
  for (int i = 0; i < 50; ++i) REQUIRE(Call(c, "PUBLISH news %d", i)->integer == 1);
  for (int i = 0; i < 50; ++i) {
    void* message = NULL;
    REQUIRE(redisGetReply(s, &message) == REDIS_OK && message != NULL);
    const redisReply* got = message;
    REQUIRE(got->elements == 3 && atoi(got->element[2]->str) == i);
    freeReplyObject(message);
  }
  redisFree(s);
}

static void Scripts(redisContext* c) {
  Call(c, "SCRIPT FLUSH");
  redisReply* loaded = Call(c, "SCRIPT LOAD %s", "return redis.call('incrby',KEYS[1],ARGV[1])");
  char sha[41];
  REQUIRE(loaded->len == 40);
  memcpy(sha, loaded->str, sizeof(sha));
  REQUIRE(Call(c, "EVALSHA %s 1 counter 5", sha)->integer == 5);
  REQUIRE(Call(c, "EVALSHA %s 1 counter 5", sha)->integer == 10);
  Call(c, "SCRIPT FLUSH");
  REQUIRE(strncmp(Call(c, "EVALSHA %s 1 counter 5", sha)->str, "NOSCRIPT", 8) == 0);
}

static void Blocking(redisContext* c, redisContext* other) {
  redisAppendCommand(c, "BLPOP empty queue 10");
  int is_written = 0;
  while (!is_written) REQUIRE(redisBufferWrite(c, &is_written) == REDIS_OK);
  freeReplyObject(redisCommand(other, "RPUSH queue a b"));
  redisReply* popped = Read(c);
  REQUIRE(popped->elements == 2 && IsText(popped->element[1], "a"));
  REQUIRE(IsText(Call(c, "BLMOVE queue done LEFT RIGHT 10"), "b"));
  REQUIRE(Call(c, "BLPOP empty 0.05")->type == REDIS_REPLY_NIL);
}

int main(void) {
  redisContext* c = Connect();
  redisContext* other = Connect();
  Call(c, "FLUSHALL");
  Plain(c);
  Pipelines(c);
  Transactions(c, other);
  PubSub(c);
  Scripts(c);
  Blocking(c, other);
  freeReplyObject(last);
  redisFree(c);
  redisFree(other);
  return 0;
}
