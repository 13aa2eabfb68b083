// SPDX-License-Identifier: Apache-2.0
#include "helio/base/intrusive_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

#include "helio/base/random.h"

namespace helio {
namespace {

struct Other;
struct Element : ListHook<>, ListHook<Other> {
  explicit Element(int v = 0) : value(v) {}
  int value;
};

std::vector<int> Values(IntrusiveList<Element>& list) {
  std::vector<int> values;
  for (Element& element : list) values.push_back(element.value);
  return values;
}

TEST(IntrusiveListTest, ElementsLeaveFromAnywhere) {
  IntrusiveList<Element> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.PopFront(), nullptr);
  Element a(1), b(2), c(3), d(4);
  list.PushBack(&b);
  list.PushBack(&d);
  list.PushFront(&a);
  list.InsertBefore(&d, &c);
  EXPECT_EQ(Values(list), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(list.Back(), &d);
  EXPECT_TRUE(b.ListHook<>::Unlink());
  EXPECT_FALSE(b.ListHook<>::Unlink());
  EXPECT_EQ(list.PopFront(), &a);
  EXPECT_EQ(Values(list), (std::vector<int>{3, 4}));
  EXPECT_EQ(list.size(), 2u);
}

TEST(IntrusiveListTest, OneElementStandsInTwoListsByTag) {
  IntrusiveList<Element> first;
  IntrusiveList<Element, Other> second;
  Element a(1);
  first.PushBack(&a);
  second.PushBack(&a);
  first.PopFront();
  EXPECT_FALSE(a.ListHook<>::linked());
  EXPECT_EQ(second.Front(), &a);
}

TEST(IntrusiveListTest, DyingElementsAndListsLetGo) {
  Element survivor(1);
  {
    IntrusiveList<Element> list;
    list.PushBack(&survivor);
    {
      Element dies(2);
      list.PushBack(&dies);
    }
    EXPECT_EQ(list.size(), 1u);
  }
  EXPECT_FALSE(survivor.ListHook<>::linked());
  const Element copy = survivor;
  EXPECT_FALSE(copy.ListHook<>::linked());
}

#ifndef NDEBUG
TEST(IntrusiveListDeathTest, InsertingTwiceIsABug) {
  IntrusiveList<Element> list;
  Element a;
  list.PushBack(&a);
  EXPECT_DEATH(list.PushBack(&a), "already");
}
#endif

TEST(IntrusiveListTest, BehavesAsStdListUnderRandomOperations) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<Element> pool;
  for (int i = 0; i < 50; i++) pool.emplace_back(i);
  IntrusiveList<Element> list, other;
  std::list<int> model, other_model;
  for (int i = 0; i < 20'000; i++) {
    Element& element = pool[random.Uniform(pool.size())];
    switch (random.Uniform(5)) {
      case 0:
        if (!element.ListHook<>::linked()) {
          list.PushBack(&element);
          model.push_back(element.value);
        }
        break;
      case 1:
        if (!element.ListHook<>::linked()) {
          other.PushFront(&element);
          other_model.push_front(element.value);
        }
        break;
      case 2:
        element.ListHook<>::Unlink();
        model.remove(element.value);
        other_model.remove(element.value);
        break;
      case 3:
        if (random.OneIn(10)) {
          list.Splice(&other);
          model.splice(model.end(), other_model);
        }
        break;
      default:
        if (Element* front = list.PopFront()) {
          ASSERT_EQ(front->value, model.front());
          model.pop_front();
        }
    }
    ASSERT_EQ(list.empty(), model.empty());
    ASSERT_THAT(Values(list), ::testing::ElementsAreArray(model));
    ASSERT_THAT(Values(other), ::testing::ElementsAreArray(other_model));
  }
}

}  // namespace
}  // namespace helio
