// SPDX-License-Identifier: Apache-2.0
//! What a program does with redis-rs, in both protocols. PORT, and CLUSTER_PORT if there is one.
use redis::cluster::ClusterClient;
use redis::{Commands, Connection, RedisResult};
use std::collections::{HashMap, HashSet};
use std::{env, thread};

fn plain(r: &mut Connection) -> RedisResult<()> {
    let _: () = r.set("s", 1)?;
    let next: i64 = r.incr("s", 1)?;
    assert_eq!(next, 2);
    let _: () = r.hset_multiple("h", &[("a", "1"), ("b", "2")])?;
    let hash: HashMap<String, i64> = r.hgetall("h")?;
    assert_eq!(hash, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    let _: () = r.zadd_multiple("z", &[(1.5, "m"), (2.0, "n")])?;
    let scored: Vec<(String, f64)> = r.zrange_withscores("z", 0, -1)?;
    assert_eq!(scored, vec![("m".into(), 1.5), ("n".into(), 2.0)]);
    let _: () = r.sadd("set", (0..300).collect::<Vec<i64>>())?;
    let found: HashSet<i64> = r.sscan("set")?.collect::<RedisResult<_>>()?;
    assert_eq!(found.len(), 300);
    let id: String = r.xadd("x", "*", &[("f", "v")])?;
    let _: () = r.xgroup_create("x", "g", "0")?;
    let options = redis::streams::StreamReadOptions::default().group("g", "c").count(1);
    let read: redis::streams::StreamReadReply = r.xread_options(&["x"], &[">"], &options)?;
    assert_eq!(read.keys[0].ids[0].id, id);
    let acked: i64 = r.xack("x", "g", &[id])?;
    assert_eq!(acked, 1);
    Ok(())
}

fn pipelines(r: &mut Connection) -> RedisResult<()> {
    let mut p = redis::pipe();
    for i in 0..1000 {
        p.set(format!("p{i}"), i).ignore().get(format!("p{i}"));
    }
    let values: Vec<i64> = p.query(r)?;
    assert_eq!(values, (0..1000).collect::<Vec<i64>>());
    Ok(())
}

fn transactions(r: &mut Connection, other: &mut Connection) -> RedisResult<()> {
    let _: () = r.set("n", 1)?;
    let mut tries = 0;
    // The first try is disturbed, so there is a second one.
    let (changed,): (i64,) = redis::transaction(r, &["n"], |r, p| {
        tries += 1;
        let value: i64 = r.get("n")?;
        if tries == 1 {
            let _: () = other.set("n", 100)?;
        }
        p.set("n", value + 1).ignore().get("n").query(r)
    })?;
    assert_eq!((tries, changed), (2, 101));
    Ok(())
}

fn pubsub(client: &redis::Client, r: &mut Connection) -> RedisResult<()> {
    let mut connection = client.get_connection()?;
    let mut s = connection.as_pubsub();
    s.subscribe("news")?;
    s.psubscribe("n*")?;
    for i in 0..50 {
        let receivers: i64 = r.publish("news", i)?;
        assert_eq!(receivers, 2);
    }
    let (mut next, mut patterns) = (0, 0);
    while next + patterns < 100 {
        let message = s.get_message()?;
        if message.from_pattern() {
            patterns += 1;
        } else {
            assert_eq!(message.get_payload::<i64>()?, next);
            next += 1;
        }
    }
    assert_eq!(next, 50);
    Ok(())
}

fn scripts(r: &mut Connection) -> RedisResult<()> {
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(r)?;
    let add = redis::Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");
    for expected in [5, 10] {
        let sum: i64 = add.key("counter").arg(5).invoke(r)?;
        assert_eq!(sum, expected);
    }
    Ok(())
}

fn blocking(client: &redis::Client, r: &mut Connection) -> RedisResult<()> {
    let mut other = client.get_connection()?;
    let pusher = thread::spawn(move || other.rpush::<_, _, i64>("queue", &["a", "b"]));
    let popped: (String, String) = r.blpop(&["empty", "queue"], 10.0)?;
    assert_eq!(popped, ("queue".into(), "a".into()));
    pusher.join().expect("it pushes")?;
    let (left, right) = (redis::Direction::Left, redis::Direction::Right);
    let moved: String = r.blmove("queue", "done", left, right, 10.0)?;
    assert_eq!(moved, "b");
    let nothing: Option<(String, String)> = r.blpop("empty", 0.05)?;
    assert_eq!(nothing, None);
    Ok(())
}

fn cluster(port: &str) -> RedisResult<()> {
    let client = ClusterClient::new(vec![format!("redis://127.0.0.1:{port}")])?;
    let mut r = client.get_connection()?;
    for i in 0..200 {
        let _: () = r.set(format!("c{i}"), i)?;
    }
    for i in 0..200 {
        let value: i64 = r.get(format!("c{i}"))?;
        assert_eq!(value, i);
    }
    let mut p = redis::cluster::cluster_pipe();
    for i in 0..200 {
        p.get(format!("c{i}"));
    }
    let values: Vec<i64> = p.query(&mut r)?;
    assert_eq!(values, (0..200).collect::<Vec<i64>>());
    Ok(())
}

fn main() -> RedisResult<()> {
    let port = env::var("PORT").expect("PORT");
    for protocol in ["resp2", "resp3"] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/?protocol={protocol}"))?;
        let mut r = client.get_connection()?;
        let mut other = client.get_connection()?;
        let _: () = redis::cmd("FLUSHALL").query(&mut r)?;
        plain(&mut r)?;
        pipelines(&mut r)?;
        transactions(&mut r, &mut other)?;
        pubsub(&client, &mut r)?;
        scripts(&mut r)?;
        blocking(&client, &mut r)?;
    }
    if let Ok(port) = env::var("CLUSTER_PORT") {
        cluster(&port)?;
    }
    Ok(())
}
