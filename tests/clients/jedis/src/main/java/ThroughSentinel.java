// SPDX-License-Identifier: Apache-2.0
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Writes 1, 2, 3, ... through Sentinel (SENTINELS="26379 26380") with the client's own settings
 * until its standard input ends, and prints each number that was answered.
 */
public final class ThroughSentinel {
  private static volatile boolean ended = false;

  public static void main(String[] arguments) throws Exception {
    Thread ending = new Thread(() -> {
      try {
        while (System.in.read() >= 0) { }
      } catch (java.io.IOException e) {
        System.err.println(e);
      }
      ended = true;
    });
    ending.setDaemon(true);
    ending.start();
    Set<HostAndPort> sentinels = Stream.of(System.getenv("SENTINELS").split(" "))
        .map(port -> new HostAndPort("127.0.0.1", Integer.parseInt(port)))
        .collect(Collectors.toSet());
    try (RedisSentinelClient r = RedisSentinelClient.builder()
        .masterName(System.getenv("MASTER")).sentinels(sentinels)
        .clientConfig(DefaultJedisClientConfig.builder().build())
        .sentinelClientConfig(DefaultJedisClientConfig.builder().build()).build()) {
      for (int number = 1; !ended; number++) {
        try {
          r.sadd(System.getenv("KEY"), String.valueOf(number));
          System.out.println(number);
        } catch (JedisException e) {
          System.err.println(e);
          Thread.sleep(20);
        }
      }
    }
  }
}
