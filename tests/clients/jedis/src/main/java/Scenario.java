// SPDX-License-Identifier: Apache-2.0
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

/** What a program does with Jedis, in both protocols. PORT, and CLUSTER_PORT if there is one. */
public final class Scenario {
  private static void equal(Object got, Object want) {
    if (!want.equals(got)) throw new AssertionError(got + ", not " + want);
  }

  private static List<String> numbers(int count) {
    List<String> all = new ArrayList<>();
    for (int i = 0; i < count; i++) all.add(String.valueOf(i));
    return all;
  }

  private static void plain(Jedis r) {
    equal(r.set("s", "1"), "OK");
    equal(r.incr("s"), 2L);
    r.hset("h", Map.of("a", "1", "b", "2"));
    equal(r.hgetAll("h"), Map.of("a", "1", "b", "2"));
    r.zadd("z", Map.of("m", 1.5, "n", 2.0));
    equal(r.zrangeWithScores("z", 0, -1), List.of(new Tuple("m", 1.5), new Tuple("n", 2.0)));
    r.sadd("set", numbers(300).toArray(new String[0]));
    Set<String> found = new HashSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> part = r.sscan("set", cursor, new ScanParams().count(10));
      found.addAll(part.getResult());
      cursor = part.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    equal(found.size(), 300);
    StreamEntryID id = r.xadd("x", StreamEntryID.NEW_ENTRY, Map.of("f", "v"));
    r.xgroupCreate("x", "g", new StreamEntryID(0, 0), false);
    var read = r.xreadGroup("g", "c", new XReadGroupParams().count(1),
        Map.of("x", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
    equal(read.get(0).getValue().get(0).getID(), id);
    equal(r.xack("x", "g", id), 1L);
  }

  private static void pipelines(Jedis r) {
    List<Response<String>> values = new ArrayList<>();
    Pipeline p = r.pipelined();
    for (String i : numbers(1000)) {
      p.set("p" + i, i);
      values.add(p.get("p" + i));
    }
    p.sync();
    equal(values.stream().map(Response::get).toList(), numbers(1000));
  }

  private static void transactions(Jedis r, Jedis other) {
    r.watch("n");
    Transaction t = r.multi();
    t.set("n", "1");
    t.get("n");
    equal(t.exec(), List.of("OK", "1"));
    r.watch("n");
    other.set("n", "100");
    t = r.multi();
    t.set("n", "0");
    if (t.exec() != null) throw new AssertionError("it was changed");
    equal(r.get("n"), "100");
  }

  private static void pubsub(Jedis r, Jedis subscriber) throws InterruptedException {
    CountDownLatch ready = new CountDownLatch(2);
    List<String> messages = new ArrayList<>();
    List<String> matches = new ArrayList<>();
    JedisPubSub listener = new JedisPubSub() {
      @Override public void onSubscribe(String channel, int count) {
        psubscribe("n*");
        ready.countDown();
      }
      @Override public void onPSubscribe(String pattern, int count) { ready.countDown(); }
      @Override public void onMessage(String channel, String message) {
        messages.add(message);
        endIfAll();
      }
      @Override public void onPMessage(String pattern, String channel, String message) {
        matches.add(message);
        endIfAll();
      }
      private void endIfAll() {
        if (messages.size() + matches.size() < 100) return;
        unsubscribe();
        punsubscribe();
      }
    };
    Thread thread = new Thread(() -> subscriber.subscribe(listener, "news"));
    thread.start();
    if (!ready.await(20, TimeUnit.SECONDS)) throw new AssertionError("not subscribed");
    for (String i : numbers(50)) equal(r.publish("news", i), 2L);
    thread.join(20_000);
    equal(messages, numbers(50));
    equal(matches, numbers(50));
  }

  private static void scripts(Jedis r) {
    String text = "return redis.call('incrby', KEYS[1], ARGV[1])";
    String sha = r.scriptLoad(text);
    equal(r.evalsha(sha, 1, "counter", "5"), 5L);
    r.scriptFlush();
    try {
      r.evalsha(sha, 1, "counter", "5");
      throw new AssertionError("it is known");
    } catch (JedisNoScriptException e) {
      equal(r.eval(text, 1, "counter", "5"), 10L);
    }
  }

  private static void blocking(Jedis r, Jedis other) throws InterruptedException {
    Thread thread = new Thread(() -> other.rpush("queue", "a", "b"));
    thread.start();
    equal(r.blpop(10, "empty", "queue"), List.of("queue", "a"));
    equal(r.blmove("queue", "done", ListDirection.LEFT, ListDirection.RIGHT, 10), "b");
    thread.join();
    if (r.blpop(0.05, "empty") != null) throw new AssertionError("there is something");
  }

  private static void cluster(int port) {
    try (JedisCluster c = new JedisCluster(new HostAndPort("127.0.0.1", port))) {
      for (String i : numbers(200)) c.set("c" + i, i);
      for (String i : numbers(200)) equal(c.get("c" + i), i);
      try (var p = c.pipelined()) {
        List<Response<String>> values = new ArrayList<>();
        for (String i : numbers(200)) values.add(p.get("c" + i));
        p.sync();
        equal(values.stream().map(Response::get).toList(), numbers(200));
      }
      c.mset("{t}a", "1", "{t}b", "2");
      equal(c.mget("{t}a", "{t}b"), List.of("1", "2"));
    }
  }

  public static void main(String[] args) throws InterruptedException {
    HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
    for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
      var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
      try (Jedis r = new Jedis(address, config); Jedis other = new Jedis(address, config);
          Jedis subscriber = new Jedis(address, config)) {
        r.flushAll();
        plain(r);
        pipelines(r);
        transactions(r, other);
        pubsub(r, subscriber);
        scripts(r);
        blocking(r, other);
      }
    }
    String port = System.getenv("CLUSTER_PORT");
    if (port != null) cluster(Integer.parseInt(port));
  }
}
