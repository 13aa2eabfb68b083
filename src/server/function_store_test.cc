// SPDX-License-Identifier: Apache-2.0
#include "server/function_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {
TEST(FunctionStoreTest, Placeholder) {}
}  // namespace
}  // namespace dfly
