// SPDX-License-Identifier: Apache-2.0
#include "commands/table/command_syntax.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "helio/base/ascii.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

struct Row {
  std::string_view name;
  std::string_view syntax;
};

// By name.
constexpr Row kRows[] = {
    {"acl|cat", "[categoryname]"},
    {"acl|deluser", "username..."},
    {"acl|dryrun", "username command [arg...]"},
    {"acl|genpass", "[bits:i]"},
    {"acl|getuser", "username"},
    {"acl|log", "[<operation: count:i | RESET>]"},
    {"acl|setuser", "username [rule...]"},
    {"append", "key:k0 value"},
    {"auth", "[username@6.0.0] password"},
    {"bf.add", "key:k0 item"},
    {"bf.card", "key:k0"},
    {"bf.exists", "key:k0 item"},
    {"bf.info", "key:k0 [<single_value: CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION>]"},
    {"bf.insert",
     "key:k0 [CAPACITY capacity:i] [ERROR error:d] [EXPANSION expansion:i] [NOCREATE] [NONSCALING] "
     "ITEMS item..."},
    {"bf.loadchunk", "key:k0 iterator:i data"},
    {"bf.madd", "key:k0 item..."},
    {"bf.mexists", "key:k0 item..."},
    {"bf.reserve", "key:k0 error_rate:d capacity:i [EXPANSION expansion:i] [NONSCALING]"},
    {"bf.scandump", "key:k0 iterator:i"},
    {"bgsave", "[SCHEDULE@3.2.2]"},
    {"bitcount", "key:k0 [(index: start:i end:i [<index_unit: BYTE | BIT>@7.0.0])]"},
    {"bitfield",
     "key:k0 [<operation: GET (encoding_offset: encoding offset:i) | (write: [OVERFLOW "
     "<wrap_sat_fail: WRAP | SAT | FAIL>] <write_operation: SET (encoding_offset_value: encoding "
     "offset:i value:i) | INCRBY (encoding_offset_increment: encoding offset:i "
     "increment:i)>)>...]"},
    {"bitfield_ro", "key:k0 [GET (encoding_offset: encoding offset:i)....]"},
    {"bitop", "operation destkey:k0 key:k1..."},
    {"bitpos",
     "key:k0 bit:i [(index: start:i [(end_index: end:i [<index_unit: BYTE | BIT>@7.0.0])])]"},
    {"blmove",
     "source:k0 destination:k1 <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT> timeout:d"},
    {"blmovem",
     "source:k0 destination:k1 <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT> timeout:d "
     "[(how-many: <selector: COUNT count:i | EXACTLY exactly:i> <ordering: OBO | BULK>)]"},
    {"blmpop", "timeout:d numkeys:i key:k0... <where: LEFT | RIGHT> [COUNT count:i]"},
    {"blpop", "key:k0... timeout:d"},
    {"brpop", "key:k0... timeout:d"},
    {"brpoplpush", "source:k0 destination:k1 timeout:d"},
    {"bzmpop", "timeout:d numkeys:i key:k0... <where: MIN | MAX> [COUNT count:i]"},
    {"bzpopmax", "key:k0... timeout:d"},
    {"bzpopmin", "key:k0... timeout:d"},
    {"cl.throttle", "key:k0 max_burst:i count:i period:i [quantity:i]"},
    {"client|caching", "<mode: YES | NO>"},
    {"client|hotkeys", "milliseconds:i [count:i]"},
    {"client|kill",
     "<filter: ip:port@@2.8.12 | <new-format: [ID client-id:i@2.8.12] | [TYPE "
     "<normal_master_slave_pubsub: NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB>@2.8.12] "
     "| [USER username] | [ADDR ip:port] | [LADDR ip:port@6.2.0] | [SKIPME yes/no] | [MAXAGE "
     "maxage:i@7.4.0]>...>"},
    {"client|list",
     "[TYPE <normal_master_replica_pubsub: NORMAL | MASTER | REPLICA | PUBSUB>@5.0.0] [ID (id: "
     "client-id:i...)@6.2.0]"},
    {"client|no-evict", "<enabled: ON | OFF>"},
    {"client|no-touch", "<enabled: ON | OFF>"},
    {"client|pause", "timeout:i [<mode: WRITE | ALL>@6.2.0]"},
    {"client|reply", "<on_off_skip: ON | OFF | SKIP>"},
    {"client|setinfo", "<attr: LIB-NAME libname | LIB-VER libver>"},
    {"client|setname", "connection-name"},
    {"client|tracking",
     "<status: ON | OFF> [REDIRECT client-id:i] [PREFIX prefix....] [BCAST] [OPTIN] [OPTOUT] "
     "[NOLOOP]"},
    {"client|unblock", "client-id:i [<timeout_error: TIMEOUT | ERROR>]"},
    {"clusterscan", "cursor [MATCH pattern:p] [COUNT count:i] [TYPE type] [SLOT slot:i]"},
    {"cluster|countkeysinslot", "slot:i"},
    {"cluster|getkeysinslot", "slot:i count:i"},
    {"cluster|keyslot", "key"},
    {"cluster|replicas", "node-id"},
    {"cluster|reset", "[<hard_soft: HARD | SOFT>]"},
    {"cluster|slaves", "node-id"},
    {"cms.incrby", "key:k0 (items: item increment:i)..."},
    {"cms.info", "key:k0"},
    {"cms.initbydim", "key:k0 width:i depth:i"},
    {"cms.initbyprob", "key:k0 error:d probability:d"},
    {"cms.merge", "destination:k0 numKeys:i source:k1... [WEIGHTS weight:i...]"},
    {"cms.query", "key:k0 item..."},
    {"commandlog|get", "count:i type"},
    {"commandlog|len", "type"},
    {"commandlog|reset", "type"},
    {"command|docs", "[command-name...]"},
    {"command|getkeys", "command [arg...]"},
    {"command|getkeysandflags", "command [arg...]"},
    {"command|info", "[command-name...]"},
    {"command|list",
     "[FILTERBY <filterby: MODULE module-name | ACLCAT category | PATTERN pattern:p>]"},
    {"config|get", "(parameter: parameter)..."},
    {"config|set", "(parameter_value: parameter value)..."},
    {"copy", "source:k0 destination:k1 [DB destination-db:i] [REPLACE]"},
    {"decr", "key:k0"},
    {"decrby", "key:k0 decrement:i"},
    {"del", "key:k0..."},
    {"delex",
     "key:k0 [<condition: IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE "
     "ifdne-digest>]"},
    {"delifeq", "key:k0 value"},
    {"digest", "key:k0"},
    {"dump", "key:k0"},
    {"echo", "message"},
    {"eval", "script numkeys:i [key:k0...] [arg...]"},
    {"eval_ro", "script numkeys:i [key:k0...] [arg...]"},
    {"evalsha", "sha1 numkeys:i [key:k0...] [arg...]"},
    {"evalsha_ro", "sha1 numkeys:i [key:k0...] [arg...]"},
    {"exists", "key:k0..."},
    {"expire", "key:k0 seconds:i [<condition: NX | XX | GT | LT>@7.0.0]"},
    {"expireat", "key:k0 unix-time-seconds:t [<condition: NX | XX | GT | LT>@7.0.0]"},
    {"expiretime", "key:k0"},
    {"failover", "[TO (target: host port:i [FORCE])] [ABORT] [TIMEOUT milliseconds:i]"},
    {"fcall", "function numkeys:i [key:k0...] [arg...]"},
    {"fcall_ro", "function numkeys:i [key:k0...] [arg...]"},
    {"fieldexpire", "key:k0 seconds:i field..."},
    {"fieldpexpireat", "key:k0 unix-time-milliseconds:t field..."},
    {"fieldttl", "key:k0 field"},
    {"flushall", "[<async: ASYNC@4.0.0 | SYNC@6.2.0>]"},
    {"flushdb", "[<async: ASYNC@4.0.0 | SYNC@6.2.0>]"},
    {"function|delete", "library-name"},
    {"function|flush", "[<async: ASYNC | SYNC>]"},
    {"function|list", "[LIBRARYNAME library-name-pattern] [WITHCODE]"},
    {"function|load", "[REPLACE] function-code"},
    {"function|restore", "serialized-value [<policy: FLUSH | APPEND | REPLACE>]"},
    {"geoadd",
     "key:k0 [<condition: NX | XX>@6.2.0] [change=CH@6.2.0] (longitude_latitude_member: "
     "longitude:d latitude:d member)..."},
    {"geodist", "key:k0 member1 member2 [<unit: M | KM | FT | MI>]"},
    {"geohash", "key:k0 member..."},
    {"geopos", "key:k0 member..."},
    {"georadius",
     "key:k0 longitude:d latitude:d radius:d <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] "
     "[WITHHASH] [(count: COUNT count:i [ANY@6.2.0])] [<order: ASC | DESC>] [STORE key:k1] "
     "[STOREDIST key:k2]"},
    {"georadius_ro",
     "key:k0 longitude:d latitude:d radius:d <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] "
     "[WITHHASH] [(count: COUNT count:i [ANY@6.2.0])] [<order: ASC | DESC>]"},
    {"georadiusbymember",
     "key:k0 member radius:d <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [(count: "
     "COUNT count:i [ANY])] [<order: ASC | DESC>] [STORE key:k1] [STOREDIST key:k2]"},
    {"georadiusbymember_ro",
     "key:k0 member radius:d <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [(count: "
     "COUNT count:i [ANY])] [<order: ASC | DESC>]"},
    {"geosearch",
     "key:k0 <from: FROMMEMBER member | FROMLONLAT (longitude_latitude: longitude:d latitude:d)> "
     "<by: (circle: BYRADIUS radius:d <unit: M | KM | FT | MI>) | (box: BYBOX width:d height:d "
     "<unit: M | KM | FT | MI>) | (polygon: BYPOLYGON num-vertices:i (vertices: longitude:d "
     "latitude:d)...)@9.0.0> [<order: ASC | DESC>] [(count: COUNT count:i [ANY])] [WITHCOORD] "
     "[WITHDIST] [WITHHASH]"},
    {"geosearchstore",
     "destination:k0 source:k1 <from: FROMMEMBER member | FROMLONLAT (longitude_latitude: "
     "longitude:d latitude:d)> <by: (circle: BYRADIUS radius:d <unit: M | KM | FT | MI>) | (box: "
     "BYBOX width:d height:d <unit: M | KM | FT | MI>) | (polygon: BYPOLYGON num-vertices:i "
     "(vertices: longitude:d latitude:d)...)@9.0.0> [<order: ASC | DESC>] [(count: COUNT count:i "
     "[ANY])] [STOREDIST]"},
    {"get", "key:k0"},
    {"getbit", "key:k0 offset:i"},
    {"getdel", "key:k0"},
    {"getex",
     "key:k0 [<expiration: EX seconds:i | PX milliseconds:i | EXAT unix-time-seconds:t | PXAT "
     "unix-time-milliseconds:t | PERSIST>]"},
    {"getrange", "key:k0 start:i end:i"},
    {"getset", "key:k0 value"},
    {"hdel", "key:k0 field..."},
    {"hello",
     "[(arguments: protover:i [AUTH (username_password: username password)] [SETNAME "
     "clientname])]"},
    {"hexists", "key:k0 field"},
    {"hexpire",
     "key:k0 seconds:i [<condition: NX | XX | GT | LT>] FIELDS (fields: numfields:i field...)"},
    {"hexpireat",
     "key:k0 unix-time-seconds:t [<condition: NX | XX | GT | LT>] FIELDS (fields: numfields:i "
     "field...)"},
    {"hexpiretime", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hget", "key:k0 field"},
    {"hgetall", "key:k0"},
    {"hgetdel", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hgetex",
     "key:k0 [<expiration: EX seconds:i | PX milliseconds:i | EXAT unix-time-seconds:t | PXAT "
     "unix-time-milliseconds:t | PERSIST>] FIELDS (fields: numfields:i field...)"},
    {"hincrby", "key:k0 field increment:i"},
    {"hincrbyfloat", "key:k0 field increment:d"},
    {"hkeys", "key:k0"},
    {"hlen", "key:k0"},
    {"hmget", "key:k0 field..."},
    {"hmset", "key:k0 (field_value: field value)..."},
    {"hotkeys|start",
     "METRICS (metrics: count:i [CPU] [NET]) [COUNT k:i] [DURATION seconds:i] [SAMPLE ratio:i] "
     "[SLOTS (slots: count:i slot:i...)]"},
    {"hpersist", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hpexpire",
     "key:k0 milliseconds:i [<condition: NX | XX | GT | LT>] FIELDS (fields: numfields:i "
     "field...)"},
    {"hpexpireat",
     "key:k0 unix-time-milliseconds:t [<condition: NX | XX | GT | LT>] FIELDS (fields: numfields:i "
     "field...)"},
    {"hpexpiretime", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hpttl", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hrandfield", "key:k0 [(options: count:i [WITHVALUES])]"},
    {"hscan", "key:k0 cursor:i [MATCH pattern:p] [COUNT count:i]"},
    {"hset", "key:k0 (field_value: field value)..."},
    {"hsetex",
     "key:k0 [<key-condition: NX | XX>] [<condition: FNX | FXX>] [<expiration: EX seconds:i | PX "
     "milliseconds:i | EXAT unix-time-seconds:t | PXAT unix-time-milliseconds:t | KEEPTTL>] "
     "FIELDS (data: numfields:i "
     "(field_value: field value)...)"},
    {"hsetnx", "key:k0 field value"},
    {"hstrlen", "key:k0 field"},
    {"httl", "key:k0 FIELDS (fields: numfields:i field...)"},
    {"hvals", "key:k0"},
    {"incr", "key:k0"},
    {"incrby", "key:k0 increment:i"},
    {"incrbyfloat", "key:k0 increment:d"},
    {"increx",
     "key:k0 [<increment: BYFLOAT float:d | BYINT integer:i>] [SATURATE] [LBOUND lowerbound] "
     "[UBOUND upperbound] [<expiration: EX seconds:i | PX milliseconds:i | EXAT "
     "unix-time-seconds:t | PXAT unix-time-milliseconds:t | PERSIST>] [ENX]"},
    {"info", "[section...]"},
    {"json.arrappend", "key:k0 path value..."},
    {"json.arrindex", "key:k0 path value [(range: start:i [stop:i])]"},
    {"json.arrinsert", "key:k0 path index:i value..."},
    {"json.arrlen", "key:k0 [path]"},
    {"json.arrpop", "key:k0 [(path: path [index:i])]"},
    {"json.arrtrim", "key:k0 path start:i stop:i"},
    {"json.clear", "key:k0 [path]"},
    {"json.debug|memory", "key:k0 [path]"},
    {"json.del", "key:k0 [path]"},
    {"json.forget", "key:k0 [path]"},
    {"json.get", "key:k0 [INDENT indent] [NEWLINE newline] [SPACE space] [path...]"},
    {"json.merge", "key:k0 path value"},
    {"json.mget", "key:k0... path"},
    {"json.mset", "(triplet: key:k0 path value)..."},
    {"json.numincrby", "key:k0 path value:d"},
    {"json.nummultby", "key:k0 path value:d"},
    {"json.objkeys", "key:k0 [path]"},
    {"json.objlen", "key:k0 [path]"},
    {"json.resp", "key:k0 [path]"},
    {"json.set",
     "key:k0 path value [<condition: NX | XX>] [FPHA <fpha-type: FP16 | BF16 | FP32 | FP64>]"},
    {"json.strappend", "key:k0 [path] value"},
    {"json.strlen", "key:k0 [path]"},
    {"json.toggle", "key:k0 [path]"},
    {"json.type", "key:k0 [path]"},
    {"keys", "pattern:p"},
    {"latency|graph", "event"},
    {"latency|histogram", "[command...]"},
    {"latency|history", "event"},
    {"latency|reset", "[event...]"},
    {"lcs", "key1:k0 key2:k0 [LEN] [IDX] [MINMATCHLEN len:i] [WITHMATCHLEN]"},
    {"lindex", "key:k0 index:i"},
    {"linsert", "key:k0 <where: BEFORE | AFTER> pivot element"},
    {"llen", "key:k0"},
    {"lmove", "source:k0 destination:k1 <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT>"},
    {"lmovem",
     "source:k0 destination:k1 <wherefrom: LEFT | RIGHT> <whereto: LEFT | RIGHT> [(how-many: "
     "<selector: COUNT count:i | EXACTLY exactly:i> <ordering: OBO | BULK>)]"},
    {"lmpop", "numkeys:i key:k0... <where: LEFT | RIGHT> [COUNT count:i]"},
    {"lolwut", "[VERSION version:i]"},
    {"lpop", "key:k0 [count:i@6.2.0]"},
    {"lpos", "key:k0 element [RANK rank:i] [COUNT num-matches:i] [MAXLEN len:i]"},
    {"lpush", "key:k0 element..."},
    {"lpushx", "key:k0 element..."},
    {"lrange", "key:k0 start:i stop:i"},
    {"lrem", "key:k0 count:i element"},
    {"lset", "key:k0 index:i element"},
    {"ltrim", "key:k0 start:i stop:i"},
    {"memory|usage", "key:k0 [SAMPLES count:i]"},
    {"mget", "key:k0..."},
    {"module|load", "path [arg...]"},
    {"module|loadex", "path [CONFIG (configs: name value)....] [ARGS (args: arg)...]"},
    {"module|unload", "name"},
    {"move", "key:k0 db:i"},
    {"mset", "(key_value: key:k0 value)..."},
    {"msetex",
     "numkeys:i (data: key:k0 value)... [<condition: NX | XX>] [<expiration: EX seconds:i | PX "
     "milliseconds:i | EXAT unix-time-seconds:t | PXAT unix-time-milliseconds:t | KEEPTTL>]"},
    {"msetnx", "(key_value: key:k0 value)..."},
    {"object|encoding", "key:k0"},
    {"object|freq", "key:k0"},
    {"object|idletime", "key:k0"},
    {"object|refcount", "key:k0"},
    {"persist", "key:k0"},
    {"pexpire", "key:k0 milliseconds:i [<condition: NX | XX | GT | LT>@7.0.0]"},
    {"pexpireat", "key:k0 unix-time-milliseconds:t [<condition: NX | XX | GT | LT>@7.0.0]"},
    {"pexpiretime", "key:k0"},
    {"pfadd", "key:k0 [element...]"},
    {"pfcount", "key:k0..."},
    {"pfdebug", "subcommand key:k0"},
    {"pfmerge", "destkey:k0 sourcekey:k1..."},
    {"ping", "[message]"},
    {"prepend", "key:k0 value"},
    {"psetex", "key:k0 milliseconds:i value"},
    {"psubscribe", "(pattern: pattern:p)..."},
    {"psync", "replicationid offset:i"},
    {"pttl", "key:k0"},
    {"publish", "channel message"},
    {"pubsub|channels", "[pattern:p]"},
    {"pubsub|numsub", "[channel...]"},
    {"pubsub|shardchannels", "[pattern:p]"},
    {"pubsub|shardnumsub", "[shardchannel...]"},
    {"punsubscribe", "[pattern:p...]"},
    {"rename", "key:k0 newkey:k1"},
    {"renamenx", "key:k0 newkey:k1"},
    {"replicaof", "<args: (host-port: host port:i) | (no-one: NO ONE)>"},
    {"restore",
     "key:k0 ttl:i serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds:i@5.0.0] "
     "[FREQ frequency:i@5.0.0]"},
    {"rpop", "key:k0 [count:i@6.2.0]"},
    {"rpoplpush", "source:k0 destination:k1"},
    {"rpush", "key:k0 element..."},
    {"rpushx", "key:k0 element..."},
    {"sadd", "key:k0 member..."},
    {"saddex", "key:k0 [KEEPTTL] seconds:i member..."},
    {"scan", "cursor:i [MATCH pattern:p] [COUNT count:i] [TYPE type@6.0.0]"},
    {"scard", "key:k0"},
    {"script|exists", "sha1..."},
    {"script|flags", "sha1 [flag...]"},
    {"script|flush", "[<async: ASYNC | SYNC>@6.2.0]"},
    {"script|load", "script"},
    {"sdiff", "key:k0..."},
    {"sdiffcard", "numkeys:i key:k0... [LIMIT limit:i]"},
    {"sdiffstore", "destination:k0 key:k1..."},
    {"select", "index:i"},
    {"set",
     "key:k0 value [<condition: NX | XX | IFEQ ifeq-value@8.4.0 | IFNE ifne-value@8.4.0 | IFDEQ "
     "ifdeq-digest@8.4.0 | IFDNE ifdne-digest@8.4.0>@2.6.12] [GET@6.2.0] [<expiration: EX "
     "seconds:i@2.6.12 | PX milliseconds:i@2.6.12 | EXAT unix-time-seconds:t@6.2.0 | PXAT "
     "unix-time-milliseconds:t@6.2.0 | KEEPTTL@6.0.0>]"},
    {"setbit", "key:k0 offset:i value:i"},
    {"setex", "key:k0 seconds:i value"},
    {"setnx", "key:k0 value"},
    {"setrange", "key:k0 offset:i value"},
    {"shutdown", "[<nosave_save: NOSAVE | SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]"},
    {"sinter", "key:k0..."},
    {"sintercard", "numkeys:i key:k0... [LIMIT limit:i]"},
    {"sinterstore", "destination:k0 key:k1..."},
    {"sismember", "key:k0 member"},
    {"slaveof", "<args: (host-port: host port:i) | (no-one: NO ONE)>"},
    {"slowlog|explain", "[count:i]"},
    {"slowlog|get", "[count:i]"},
    {"smembers", "key:k0"},
    {"smismember", "key:k0 member..."},
    {"smove", "source:k0 destination:k1 member"},
    {"sort",
     "key:k0 [BY pattern:p1] [LIMIT (offset_count: offset:i count:i)] [GET pattern:p1....] "
     "[<order: "
     "ASC | DESC>] [sorting=ALPHA] [STORE destination:k2]"},
    {"sort_ro",
     "key:k0 [BY pattern:p1] [LIMIT (offset_count: offset:i count:i)] [GET pattern:p1....] "
     "[<order: "
     "ASC | DESC>] [sorting=ALPHA]"},
    {"spop", "key:k0 [count:i@3.2.0]"},
    {"spublish", "shardchannel message"},
    {"srandmember", "key:k0 [count:i@2.6.0]"},
    {"srem", "key:k0 member..."},
    {"sscan", "key:k0 cursor:i [MATCH pattern:p] [COUNT count:i]"},
    {"ssubscribe", "shardchannel..."},
    {"stick", "key:k0..."},
    {"strlen", "key:k0"},
    {"subscribe", "channel..."},
    {"substr", "key:k0 start:i end:i"},
    {"sunion", "key:k0..."},
    {"sunioncard", "numkeys:i key:k0... [APPROX] [LIMIT limit:i]"},
    {"sunionstore", "destination:k0 key:k1..."},
    {"sunsubscribe", "[shardchannel...]"},
    {"swapdb", "index1:i index2:i"},
    {"topk.add", "key:k0 items..."},
    {"topk.count", "key:k0 item..."},
    {"topk.incrby", "key:k0 (items: item increment:i)..."},
    {"topk.info", "key:k0"},
    {"topk.list", "key:k0 [WITHCOUNT]"},
    {"topk.query", "key:k0 item..."},
    {"topk.reserve", "key:k0 topk:i [(params: width:i depth:i decay:d)]"},
    {"touch", "key:k0..."},
    {"ttl", "key:k0"},
    {"type", "key:k0"},
    {"unlink", "key:k0..."},
    {"unsubscribe", "[channel...]"},
    {"wait", "numreplicas:i timeout:i"},
    {"waitaof", "numlocal:i numreplicas:i timeout:i"},
    {"watch", "key:k0..."},
    {"xack", "key:k0 group id..."},
    {"xackdel", "key:k0 group [<condition: KEEPREF | DELREF | ACKED>] IDS (ids: numids:i id...)"},
    {"xadd",
     "key:k0 [NOMKSTREAM@6.2.0] [<condition: KEEPREF | DELREF | ACKED>@8.2.0] "
     "[<idmp: IDMPAUTO pid | IDMP (idmp_pair: pid iid)>@8.6.0] [(trim: <strategy: MAXLEN | "
     "MINID@6.2.0> [<operator: equal== | approximately=~>] threshold [LIMIT count:i@6.2.0])] "
     "<id_or_auto: auto_id=* | id> (field_value: field value)..."},
    {"xautoclaim", "key:k0 group consumer min-idle-time start [COUNT count:i] [JUSTID]"},
    {"xcfgset", "key:k0 [IDMP-DURATION idmp-duration:i] [IDMP-MAXSIZE idmp-maxsize:i]"},
    {"xclaim",
     "key:k0 group consumer min-idle-time id... [IDLE ms:i] [TIME unix-time-milliseconds:t] "
     "[RETRYCOUNT count:i] [FORCE] [JUSTID] [LASTID id]"},
    {"xdel", "key:k0 id..."},
    {"xdelex", "key:k0 [<condition: KEEPREF | DELREF | ACKED>] IDS (ids: numids:i id...)"},
    {"xgroup|create",
     "key:k0 groupname <id: id | new_id=$> [MKSTREAM] [ENTRIESREAD entries_read:i]"},
    {"xgroup|createconsumer", "key:k0 groupname consumername"},
    {"xgroup|delconsumer", "key:k0 groupname consumername"},
    {"xgroup|destroy", "key:k0 groupname"},
    {"xgroup|setid", "key:k0 groupname <id: id | new_id=$> [ENTRIESREAD entries_read:i]"},
    {"xidmprecord", "key:k0 pid iid stream-id"},
    {"xinfo|consumers", "key:k0 groupname"},
    {"xinfo|groups", "key:k0"},
    {"xinfo|stream", "key:k0 [FULL (full: [COUNT count:i])]"},
    {"xlen", "key:k0"},
    {"xnack",
     "key:k0 group <mode: SILENT | FAIL | FATAL> IDS (ids: numids:i id...) [RETRYCOUNT count:i] "
     "[FORCE]"},
    {"xpending",
     "key:k0 group [(filters: [IDLE min-idle-time:i@6.2.0] start end count:i [consumer])]"},
    {"xrange", "key:k0 start end [COUNT count:i]"},
    {"xread",
     "[COUNT count:i] [MAXCOUNT maxcount:i@8.10.0] [MAXSIZE maxsize:i@8.10.0] "
     "[BLOCK milliseconds:i] STREAMS (streams: key:k0... id...)"},
    {"xreadgroup",
     "GROUP (group_consumer: group consumer) [COUNT count:i] [MAXCOUNT maxcount:i@8.10.0] "
     "[MAXSIZE maxsize:i@8.10.0] [BLOCK milliseconds:i] [CLAIM min-idle-time:i@8.4.0] [NOACK] "
     "STREAMS (streams: key:k0... id...)"},
    {"xrevrange", "key:k0 end start [COUNT count:i]"},
    {"xsetid",
     "key:k0 last-id [ENTRIESADDED entries_added:i@7.0.0] [MAXDELETEDID "
     "max_deleted_entry_id@7.0.0]"},
    {"xtrim",
     "key:k0 (trim: <strategy: MAXLEN | MINID@6.2.0> [<operator: equal== | approximately=~>] "
     "threshold [LIMIT count:i@6.2.0]) [<condition: KEEPREF | DELREF | ACKED>@8.2.0]"},
    {"zadd",
     "key:k0 [<condition: NX | XX>@3.0.2] [<comparison: GT | LT>@6.2.0] [change=CH@3.0.2] "
     "[increment=INCR@3.0.2] (score_member: score:d member)..."},
    {"zcard", "key:k0"},
    {"zcount", "key:k0 min:d max:d"},
    {"zdiff", "numkeys:i key:k0... [WITHSCORES]"},
    {"zdiffstore", "destination:k0 numkeys:i key:k1..."},
    {"zincrby", "key:k0 increment:i member"},
    {"zinter",
     "numkeys:i key:k0... [WEIGHTS weight:i...] [AGGREGATE <aggregate: SUM | MIN | MAX | "
     "COUNT@8.8.0>] [WITHSCORES]"},
    {"zintercard", "numkeys:i key:k0... [LIMIT limit:i]"},
    {"zinterstore",
     "destination:k0 numkeys:i key:k1... [WEIGHTS weight:i...] [AGGREGATE <aggregate: SUM | MIN | "
     "MAX | COUNT@8.8.0>]"},
    {"zlexcount", "key:k0 min max"},
    {"zmpop", "numkeys:i key:k0... <where: MIN | MAX> [COUNT count:i]"},
    {"zmscore", "key:k0 member..."},
    {"zpopmax", "key:k0 [count:i]"},
    {"zpopmin", "key:k0 [count:i]"},
    {"zrandmember", "key:k0 [(options: count:i [WITHSCORES])]"},
    {"zrange",
     "key:k0 start stop [<sortby: BYSCORE | BYLEX>@6.2.0] [REV@6.2.0] [LIMIT (offset_count: "
     "offset:i count:i)@6.2.0] [WITHSCORES]"},
    {"zrangebylex", "key:k0 min max [LIMIT (offset_count: offset:i count:i)]"},
    {"zrangebyscore",
     "key:k0 min:d max:d [WITHSCORES@2.0.0] [LIMIT (offset_count: offset:i count:i)]"},
    {"zrangestore",
     "dst:k0 src:k1 min max [<sortby: BYSCORE | BYLEX>] [REV] [LIMIT (offset_count: offset:i "
     "count:i)]"},
    {"zrank", "key:k0 member"},
    {"zrem", "key:k0 member..."},
    {"zremrangebylex", "key:k0 min max"},
    {"zremrangebyrank", "key:k0 start:i stop:i"},
    {"zremrangebyscore", "key:k0 min:d max:d"},
    {"zrevrange", "key:k0 start:i stop:i [WITHSCORES]"},
    {"zrevrangebylex", "key:k0 max min [LIMIT (offset_count: offset:i count:i)]"},
    {"zrevrangebyscore",
     "key:k0 max:d min:d [WITHSCORES] [LIMIT (offset_count: offset:i count:i)]"},
    {"zrevrank", "key:k0 member"},
    {"zscan", "key:k0 cursor:i [MATCH pattern:p] [COUNT count:i]"},
    {"zscore", "key:k0 member"},
    {"zunion",
     "numkeys:i key:k0... [WEIGHTS weight:i...] [AGGREGATE <aggregate: SUM | MIN | MAX | "
     "COUNT@8.8.0>] [WITHSCORES]"},
    {"zunionstore",
     "destination:k0 numkeys:i key:k1... [WEIGHTS weight:i...] [AGGREGATE <aggregate: SUM | MIN | "
     "MAX | COUNT@8.8.0>]"},
};

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

// Recursive descent.
class Parser {
 public:
  explicit Parser(std::string_view text) : left_(text) {}

  std::vector<CommandArgument> Sequence() {
    std::vector<CommandArgument> all;
    for (SkipSpaces(); !left_.empty() && left_.front() != ')'; SkipSpaces()) {
      all.push_back(Argument());
    }
    return all;
  }
  std::string_view left() const { return left_; }

 private:
  void SkipSpaces() { left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size())); }
  bool Take(char c) {
    if (left_.empty() || left_.front() != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  std::string_view TakeUntil(std::string_view ends) {
    const size_t size = std::min(left_.find_first_of(ends), left_.size());
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  CommandArgument Argument() {
    CommandArgument argument;
    if (Take('[')) {
      argument = Argument();
      CHECK(Take(']')) << left_;
      argument.is_optional = true;
      return argument;
    }
    if (left_.front() == '<' || left_.front() == '(') return Group();
    std::string_view word = TakeUntil(" ]>)");
    const bool has_marks = TakeMarks(&word, &argument);
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      argument.name = word.substr(0, equals);
      argument.type = "pure-token";
      argument.token = word.substr(equals + 1);
    } else if (std::any_of(word.begin(), word.end(), IsLower)) {
      Name(word, &argument);
    } else if (!has_marks && IsFollowed()) {
      SkipSpaces();
      argument = Argument();
      argument.token = word;
    } else {
      argument.name = helio::LowerCase(word);
      argument.type = "pure-token";
      argument.token = word;
    }
    return argument;
  }

  CommandArgument Group() {
    CommandArgument argument;
    const bool is_oneof = Take('<');
    if (!is_oneof) Take('(');
    argument.type = is_oneof ? "oneof" : "block";
    argument.name = TakeUntil(":");
    CHECK(Take(':')) << argument.name;
    if (is_oneof) {
      do {
        SkipSpaces();
        argument.parts.push_back(Argument());
        SkipSpaces();
      } while (Take('|'));
    } else {
      argument.parts = Sequence();
    }
    CHECK(Take(is_oneof ? '>' : ')')) << left_;
    std::string_view marks = TakeUntil(" ]>)");
    TakeMarks(&marks, &argument);
    CHECK(marks.empty()) << marks;
    return argument;
  }

  // What may stand behind a name. False: nothing did.
  static bool TakeMarks(std::string_view* word, CommandArgument* argument) {
    const size_t size = word->size();
    if (word->ends_with("...")) {
      argument->is_multiple = true;
      argument->repeats_token = word->ends_with("....");
      word->remove_suffix(argument->repeats_token ? 4 : 3);
    }
    const size_t at = word->find('@');
    if (at != std::string_view::npos) {
      const std::string_view version = word->substr(at + 1);
      if (version.starts_with('@')) {
        argument->deprecated_since = version.substr(1);
      } else {
        argument->since = version;
      }
      word->remove_suffix(word->size() - at);
    }
    return word->size() != size;
  }

  // A name, or a group: the word before it is its token.
  bool IsFollowed() const {
    const size_t next = left_.find_first_not_of(' ');
    if (next == std::string_view::npos || next == 0) return false;
    return IsLower(left_[next]) || left_[next] == '<' || left_[next] == '(';
  }

  static void Name(std::string_view word, CommandArgument* argument) {
    argument->type = "string";
    const size_t colon = word.rfind(':');
    const std::string_view suffix = colon == std::string_view::npos ? "" : word.substr(colon + 1);
    if (suffix == "i") {
      argument->type = "integer";
    } else if (suffix == "d") {
      argument->type = "double";
    } else if (suffix == "p") {
      argument->type = "pattern";
    } else if (suffix == "t") {
      argument->type = "unix-time";
    } else if (suffix.size() == 2 && (suffix[0] == 'k' || suffix[0] == 'p')) {
      argument->type = suffix[0] == 'k' ? "key" : "pattern";
      argument->key_spec = suffix[1] - '0';
    }
    argument->name = argument->type == "string" ? word : word.substr(0, colon);
  }

  std::string_view left_;
};

}  // namespace

std::string_view SyntaxOf(std::string_view full_name) {
  const auto* const row =
      std::lower_bound(std::begin(kRows), std::end(kRows), full_name,
                       [](const Row& one, std::string_view name) { return one.name < name; });
  return row != std::end(kRows) && row->name == full_name ? row->syntax : "";
}

std::vector<CommandArgument> ParseSyntax(std::string_view syntax) {
  Parser parser(syntax);
  std::vector<CommandArgument> arguments = parser.Sequence();
  CHECK(parser.left().empty()) << parser.left();
  return arguments;
}

}  // namespace dfly
