// SPDX-License-Identifier: Apache-2.0
// All commands there are.
#pragma once

#include "commands/table/command_table.h"
#include "server/clients/memcached_rows.h"

namespace dfly {

// Adds the rows of all families to an empty table, and memcached's to `memcached` as well.
void RegisterFamilies(CommandTable* table, MemcachedRows* memcached);

// The families of this layer, each in its own file.
void RegisterMemcachedCommands(CommandTable* table, MemcachedRows* memcached);
void RegisterConnectionCommands(CommandTable* table);
void RegisterClientCommands(CommandTable* table);
void RegisterAclCommands(CommandTable* table);
void RegisterClusterCommands(CommandTable* table);
void RegisterConfigCommands(CommandTable* table);
void RegisterCommandCommands(CommandTable* table);
void RegisterAdminCommands(CommandTable* table);
void RegisterSlowLogCommands(CommandTable* table);
void RegisterHotKeysCommands(CommandTable* table);
void RegisterLatencyCommands(CommandTable* table);
void RegisterSaveCommands(CommandTable* table);
void RegisterReplicaCommands(CommandTable* table);
void RegisterWaitCommands(CommandTable* table);
void RegisterFeedCommands(CommandTable* table);
void RegisterMultiCommands(CommandTable* table);
void RegisterScriptCommands(CommandTable* table);
void RegisterFunctionCommands(CommandTable* table);
void RegisterPubSubCommands(CommandTable* table);

}  // namespace dfly
