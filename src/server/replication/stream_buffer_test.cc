// SPDX-License-Identifier: Apache-2.0
#include "server/replication/stream_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

// The byte at each offset, so that any reader can tell.
char ByteAt(uint64_t offset) { return static_cast<char>(offset * 7 + offset / 251); }

std::string BytesFrom(uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = ByteAt(offset + i);
  return bytes;
}

void Add(StreamBuffer* buffer, size_t size) {
  buffer->Append(BytesFrom(buffer->end(), size));
  buffer->Publish();
}

TEST(StreamBufferTest, HasWhatWasAppendedFromItsFirstOffsetOn) {
  StreamBuffer buffer(1000, 1 << 20);
  EXPECT_EQ(buffer.begin(), 1000u);
  EXPECT_EQ(buffer.end(), 1000u);
  const auto pin = buffer.Pin(1000);
  ASSERT_NE(pin, nullptr);
  std::shared_ptr<const char[]> holder;
  EXPECT_EQ(buffer.Read(1000, &holder), "");
  Add(&buffer, 200'000);
  for (uint64_t offset = 1000; offset < 201'000;) {
    const std::string_view bytes = buffer.Read(offset, &holder);
    ASSERT_FALSE(bytes.empty());
    ASSERT_EQ(bytes, BytesFrom(offset, bytes.size()));
    offset += bytes.size();
  }
  EXPECT_EQ(buffer.end(), 201'000u);
}

TEST(StreamBufferTest, WhatIsAppendedIsThereWhenItIsPublished) {
  StreamBuffer buffer(0, 0);
  buffer.Append("abc");
  EXPECT_EQ(buffer.end(), 0u);
  buffer.Publish();
  EXPECT_EQ(buffer.end(), 3u);
}

TEST(StreamBufferTest, KeepsSoManyBytesAndWhatSomebodyHasYetToRead) {
  constexpr size_t kKeeps = 256 * 1024;
  StreamBuffer buffer(0, kKeeps);
  for (int i = 0; i < 100; ++i) Add(&buffer, 50'000);
  EXPECT_LE(buffer.end() - buffer.begin(), kKeeps + 2 * StreamBuffer::kBlockBytes);
  EXPECT_GE(buffer.end() - buffer.begin(), kKeeps);
  EXPECT_EQ(buffer.Pin(buffer.begin() - 1), nullptr);
  EXPECT_EQ(buffer.Pin(buffer.end() + 1), nullptr);

  const uint64_t offset = buffer.begin();
  const auto pin = buffer.Pin(offset);
  ASSERT_NE(pin, nullptr);
  for (int i = 0; i < 100; ++i) Add(&buffer, 50'000);
  EXPECT_EQ(buffer.begin(), offset);
  EXPECT_EQ(buffer.FirstPinned(), offset);
  std::shared_ptr<const char[]> holder;
  EXPECT_EQ(buffer.Read(offset, &holder).substr(0, 9), BytesFrom(offset, 9));
  pin->offset = buffer.end() - 10;
  Add(&buffer, 1);
  EXPECT_LE(buffer.end() - buffer.begin(), kKeeps + 2 * StreamBuffer::kBlockBytes);
  EXPECT_EQ(buffer.FirstPinned(), buffer.end() - 11);
  buffer.Unpin(pin);
  EXPECT_EQ(buffer.FirstPinned(), buffer.end());
}

TEST(StreamBufferTest, WhatIsNotPublishedCanBeForgotten) {
  constexpr uint64_t kBegin = 500;
  const std::string all = BytesFrom(kBegin, 3 * StreamBuffer::kBlockBytes);
  StreamBuffer buffer(kBegin, 1 << 20);
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const uint64_t done = buffer.end() - kBegin;
    const uint64_t size = random.Uniform(all.size() - done + 1);
    buffer.Append(std::string_view(all).substr(done, size));
    const uint64_t whole = done + random.Uniform(std::min<uint64_t>(size, 5000) + 1);
    buffer.PublishTo(kBegin + whole);
    ASSERT_EQ(buffer.end(), kBegin + whole);
    uint64_t end = kBegin + whole;
    if (random.OneIn(2)) {
      buffer.PublishTo(UINT64_MAX);  // as far as there is something
      end = kBegin + done + size;
    }
    ASSERT_EQ(buffer.end(), end);
    buffer.Rewind();
    ASSERT_EQ(buffer.appended(), end);
    ASSERT_EQ(buffer.end(), end);
  }
  std::shared_ptr<const char[]> holder;
  for (uint64_t offset = kBegin; offset < buffer.end();) {
    const std::string_view bytes = buffer.Read(offset, &holder);
    ASSERT_FALSE(bytes.empty());
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], ByteAt(offset + i));
    offset += bytes.size();
  }
}

TEST(StreamBufferTest, BeginsAnewElsewhere) {
  StreamBuffer buffer(0, 1 << 20);
  Add(&buffer, 200'000);
  buffer.Append("half");
  buffer.Restart(77);
  EXPECT_EQ(buffer.begin(), 77u);
  EXPECT_EQ(buffer.end(), 77u);
  EXPECT_EQ(buffer.memory_used(), 0u);
  EXPECT_EQ(buffer.Pin(0), nullptr);
  buffer.Append("new");
  buffer.Publish();
  std::shared_ptr<const char[]> holder;
  EXPECT_EQ(buffer.Read(77, &holder), "new");
}

TEST(StreamBufferTest, ReadersOnOtherThreadsSeeEachByteOnce) {
  constexpr uint64_t kBytes = 20 << 20;
  StreamBuffer buffer(77, 128 * 1024);
  const auto read_all = [&](std::shared_ptr<StreamPin> pin) {
    std::shared_ptr<const char[]> holder;
    for (uint64_t offset = 77; offset < 77 + kBytes;) {
      const std::string_view bytes = buffer.Read(offset, &holder);
      for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], ByteAt(offset + i));
      offset += bytes.size();
      pin->offset = offset;
      if (bytes.empty()) std::this_thread::yield();
    }
  };
  std::thread first(read_all, buffer.Pin(77));
  std::thread second(read_all, buffer.Pin(77));
  helio::Random random(helio::TestSeed());
  const std::string all = BytesFrom(77, kBytes);
  for (uint64_t done = 0; done < kBytes;) {
    const uint64_t size = std::min<uint64_t>(kBytes - done, 1 + random.Uniform(100'000));
    buffer.Append(std::string_view(all).substr(done, size));
    buffer.Publish();
    done += size;
  }
  first.join();
  second.join();
  EXPECT_EQ(buffer.FirstPinned(), buffer.end());
}

}  // namespace
}  // namespace dfly
