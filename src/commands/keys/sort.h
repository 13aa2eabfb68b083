// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dfly {

class CommandTable;

void RegisterSort(CommandTable* table);  // SORT and SORT_RO

}  // namespace dfly
