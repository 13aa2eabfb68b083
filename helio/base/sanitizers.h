// SPDX-License-Identifier: Apache-2.0
// What the sanitizers must be told about fibers. Each function is empty in an ordinary build.
// Source: the comments of LLVM's sanitizer/common_interface_defs.h and sanitizer/tsan_interface.h.
#pragma once

#include <cstddef>

// g++ has macros for it, clang has a question.
#if defined(__has_feature)
#define HELIO_HAS_FEATURE(name) __has_feature(name)
#else
#define HELIO_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HELIO_HAS_FEATURE(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define HELIO_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) || HELIO_HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define HELIO_TSAN 1
#endif
#undef HELIO_HAS_FEATURE

namespace helio {

// One execution context (a fiber, or a thread's own stack) as the sanitizers see it.
struct SanitizerContext {
  const void* stack_bottom = nullptr;
  size_t stack_size = 0;
  void* fake_stack = nullptr;  // address sanitizer: its own frames for use-after-return
  void* tsan_fiber = nullptr;
};

// Memory that is reused without the sanitizer seeing it (a pooled stack, what liburing maps) still
// carries old poison.
inline void UnpoisonMemory([[maybe_unused]] void* bottom, [[maybe_unused]] size_t size) {
#ifdef HELIO_ASAN
  ASAN_UNPOISON_MEMORY_REGION(bottom, size);
#endif
}

inline void SanitizerCreateFiber([[maybe_unused]] SanitizerContext* fiber) {
#ifdef HELIO_TSAN
  fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
}

inline void SanitizerDestroyFiber([[maybe_unused]] SanitizerContext* fiber) {
#ifdef HELIO_TSAN
  __tsan_destroy_fiber(fiber->tsan_fiber);
#endif
}

// Fills in the thread's own context, before the first switch away from it.
inline void SanitizerAdoptThread([[maybe_unused]] SanitizerContext* thread) {
#ifdef HELIO_TSAN
  thread->tsan_fiber = __tsan_get_current_fiber();
#endif
}

// Just before the switch. `last`: the context that is left will never run again.
inline void SanitizerBeforeSwitch([[maybe_unused]] SanitizerContext* from,
                                  [[maybe_unused]] const SanitizerContext& to,
                                  [[maybe_unused]] bool last = false) {
#ifdef HELIO_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from->fake_stack, to.stack_bottom,
                                 to.stack_size);
#endif
#ifdef HELIO_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

// First thing on the other side. `from` learns its stack's place if it was not known (the thread's
// own stack).
inline void SanitizerAfterSwitch([[maybe_unused]] SanitizerContext* to,
                                 [[maybe_unused]] SanitizerContext* from) {
#ifdef HELIO_ASAN
  __sanitizer_finish_switch_fiber(to->fake_stack, &from->stack_bottom, &from->stack_size);
#endif
}

}  // namespace helio
