// SPDX-License-Identifier: Apache-2.0
// A doubly linked list whose links are part of the elements: inserting and removing allocate
// nothing, and an element can leave without knowing its list.
#pragma once

#include <cstddef>
#include <iterator>

#include "helio/base/logging.h"

namespace helio {

// A base class of what stands in an IntrusiveList. To stand in several lists at once, derive from
// ListHook<A> and ListHook<B> with tags of your own.
//
// Owner: the thread that owns the list. An element must leave its list before it dies; the
// destructor does so.
template <typename Tag = void>
class ListHook {
 public:
  ListHook() = default;
  // A copy is another element: it stands in no list.
  ListHook(const ListHook&) {}
  ListHook& operator=(const ListHook&) { return *this; }
  ~ListHook() { Unlink(); }

  bool linked() const { return next_ != nullptr; }

  // Leaves its list. Returns false if it was in none.
  bool Unlink() {
    if (next_ == nullptr) return false;
    next_->prev_ = prev_;
    prev_->next_ = next_;
    next_ = prev_ = nullptr;
    return true;
  }

 private:
  template <typename T, typename U>
  friend class IntrusiveList;

  ListHook* next_ = nullptr;
  ListHook* prev_ = nullptr;
};

// Does not own its elements. size() counts, O(n), since elements leave without the list.
template <typename T, typename Tag = void>
class IntrusiveList {
  using Hook = ListHook<Tag>;

 public:
  IntrusiveList() { root_.next_ = root_.prev_ = &root_; }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() { Clear(); }

  bool empty() const { return root_.next_ == &root_; }
  size_t size() const {
    size_t count = 0;
    for (const Hook* hook = root_.next_; hook != &root_; hook = hook->next_) count++;
    return count;
  }

  // REQUIRES: the element is in no list (of this tag).
  void PushBack(T* element) { Link(element, root_.prev_, &root_); }
  void PushFront(T* element) { Link(element, &root_, root_.next_); }
  void InsertBefore(T* position, T* element) {
    Hook* const hook = position;
    DCHECK(hook->linked());
    Link(element, hook->prev_, hook);
  }

  T* Front() { return empty() ? nullptr : static_cast<T*>(root_.next_); }
  T* Back() { return empty() ? nullptr : static_cast<T*>(root_.prev_); }
  T* PopFront() {
    T* const element = Front();
    if (element != nullptr) static_cast<Hook*>(element)->Unlink();
    return element;
  }

  // Moves all elements of `other` behind ours. O(1).
  void Splice(IntrusiveList* other) {
    DCHECK_NE(other, this);
    if (other->empty()) return;
    Hook* const first = other->root_.next_;
    Hook* const last = other->root_.prev_;
    other->root_.next_ = other->root_.prev_ = &other->root_;
    first->prev_ = root_.prev_;
    root_.prev_->next_ = first;
    last->next_ = &root_;
    root_.prev_ = last;
  }

  // Unlinks all elements.
  void Clear() {
    while (!empty()) root_.next_->Unlink();
  }

  // Removing the element it points at invalidates an iterator; any other change does not.
  class iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    iterator() = default;
    T& operator*() const { return *static_cast<T*>(hook_); }
    T* operator->() const { return static_cast<T*>(hook_); }
    iterator& operator++() {
      hook_ = Next(hook_);
      return *this;
    }
    iterator operator++(int) {
      iterator old = *this;
      ++*this;
      return old;
    }
    iterator& operator--() {
      hook_ = Prev(hook_);
      return *this;
    }
    iterator operator--(int) {
      iterator old = *this;
      --*this;
      return old;
    }
    bool operator==(const iterator&) const = default;

   private:
    friend class IntrusiveList;
    explicit iterator(Hook* hook) : hook_(hook) {}
    Hook* hook_ = nullptr;
  };

  iterator begin() { return iterator(root_.next_); }
  iterator end() { return iterator(&root_); }

 private:
  static Hook* Next(Hook* hook) { return hook->next_; }
  static Hook* Prev(Hook* hook) { return hook->prev_; }

  void Link(Hook* hook, Hook* prev, Hook* next) {
    DCHECK(!hook->linked()) << "the element is in a list already";
    hook->prev_ = prev;
    hook->next_ = next;
    prev->next_ = hook;
    next->prev_ = hook;
  }

  Hook root_;  // root_.next_ is the first element, root_.prev_ the last
};

}  // namespace helio
