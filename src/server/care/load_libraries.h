// SPDX-License-Identifier: Apache-2.0
// What loads function libraries besides FUNCTION LOAD: FUNCTION RESTORE, and snapshots.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/care/long_run.h"
#include "server/scripts/function_store.h"

namespace dfly {

// Their code, which is not stored yet. Tells what stands against one of them. From a fiber of the
// worker's thread. Suspends.
std::optional<std::string> CompileLibraries(RunningScripts& scripts, ScriptLoad::Of of,
                                            bool holds_locks,
                                            const std::vector<std::string>& sources,
                                            std::vector<LibraryRef>* libraries);

// All of them or, if something stands against one, none: then that is told. From a fiber of the
// worker's thread. Suspends.
std::optional<std::string> LoadLibraries(RunningScripts& scripts, ScriptLoad::Of of,
                                         bool holds_locks, const std::vector<std::string>& sources,
                                         FunctionStore::Policy policy);

}  // namespace dfly
