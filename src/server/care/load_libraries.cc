// SPDX-License-Identifier: Apache-2.0
#include "server/care/load_libraries.h"

#include "helio/fibers/fiber.h"
#include "helio/fibers/hold.h"
#include "scripting/source/script_header.h"
#include "server/care/running_scripts.h"
#include "server/clients/server_state.h"

namespace dfly {

std::optional<std::string> CompileLibraries(RunningScripts& scripts, ScriptLoad::Of of,
                                            bool holds_locks,
                                            const std::vector<std::string>& sources,
                                            std::vector<LibraryRef>* libraries) {
  FunctionStore& store = scripts.worker().server.functions;
  for (const std::string& source : sources) {
    ScriptHeader header;
    if (std::optional<std::string> wrong = ParseLibraryHeader(source, &header)) return wrong;
    std::string error;
    {
      ScriptLoad load(&scripts, of, holds_locks);
      libraries->push_back(store.Compile(source, header, &load.interpreter(), &load, &error));
    }
    if (libraries->back() == nullptr) return error;
    const helio::BoundedWait wait(helio::kItsTurn);
    helio::this_fiber::Yield();  // each may take some milliseconds
  }
  return std::nullopt;
}

std::optional<std::string> LoadLibraries(RunningScripts& scripts, ScriptLoad::Of of,
                                         bool holds_locks, const std::vector<std::string>& sources,
                                         FunctionStore::Policy policy) {
  std::vector<LibraryRef> libraries;
  auto error = CompileLibraries(scripts, of, holds_locks, sources, &libraries);
  return error ? error : scripts.worker().server.functions.Add(libraries, policy);
}

}  // namespace dfly
