// SPDX-License-Identifier: Apache-2.0
#include "server/commands/families.h"

#include "server/info/info.h"
#include "server/push/monitor.h"

namespace dfly {

void RegisterFamilies(CommandTable* table, MemcachedRows* memcached) {
  RegisterMemcachedCommands(table, memcached);
  RegisterStringCommands(table);
  RegisterStreamCommands(table);
  RegisterKeyCommands(table);
  RegisterListCommands(table);
  RegisterZsetCommands(table);
  RegisterHashCommands(table);
  RegisterSetCommands(table);
  RegisterBitmapCommands(table);
  RegisterHyperLogLogCommands(table);
  RegisterProbabilisticCommands(table);
  RegisterJsonCommands(table);
  RegisterConnectionCommands(table);
  RegisterClientCommands(table);
  RegisterAclCommands(table);
  RegisterClusterCommands(table);
  RegisterConfigCommands(table);
  RegisterInfoCommands(table);
  RegisterCommandCommands(table);
  RegisterAdminCommands(table);
  RegisterSlowLogCommands(table);
  RegisterHotKeysCommands(table);
  RegisterLatencyCommands(table);
  RegisterMonitorCommand(table);
  RegisterSaveCommands(table);
  RegisterMultiCommands(table);
  RegisterScriptCommands(table);
  RegisterFunctionCommands(table);
  RegisterReplicaCommands(table);
  RegisterWaitCommands(table);
  RegisterFeedCommands(table);
  RegisterPubSubCommands(table);
}

}  // namespace dfly
