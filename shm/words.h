/* Ordered words, futexes and clocks shared by the compiled modules.
 *
 * A word is an aligned unsigned 64-bit integer in shared memory with one writer. Publishing is a
 * release store, observing an acquire load. Futexes are 32 bits wide in the kernel, so a futex on a
 * word is a futex on its low half.
 */
#ifndef SILO_WORDS_H
#define SILO_WORDS_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "SiloMQ's shared words assume a little-endian machine"
#endif

static inline uint64_t silo_load(const void *p) {
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static inline void silo_store(void *p, uint64_t v) {
    __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
}

/* A full fence between a store and the load that decides on a wake-up. The writer stores its word,
 * then loads `asleep`; the sleeper stores `asleep`, then loads the word. The CPU must not swap
 * either pair. */
static inline void silo_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* Keeps stores in program order for the process that takes over after a kill -9. On x86 the stores
 * of a killed process become visible in program order, and this only stops the compiler from
 * reordering them. On other machines the release fence stops the CPU as well. */
static inline void silo_order(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }

static inline void silo_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline int64_t silo_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t silo_realtime_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t silo_realtime_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Sleeps until woken, if the low half of *p is `seen`. Returns 0 when woken, else -errno (EAGAIN:
 * the word has changed already; ETIMEDOUT; EINTR). The page may be mapped read-only. */
static inline int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns) {
    struct timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    long r = syscall(SYS_futex, p, FUTEX_WAIT, (uint32_t)seen, &t, NULL, 0);
    return r < 0 ? -errno : 0;
}

static inline int silo_futex_wake(const void *p, int count) {
    return (int)syscall(SYS_futex, p, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* Sleeps until one of up to FUTEX_MOST words is woken, if all are still as `seen`. Needs Linux
 * 5.16. On an older kernel it waits for the first word only, and at most 20 ms. */
enum { FUTEX_MOST = 128 };
struct silo_futex_waitv {
    uint64_t value, address;
    uint32_t flags, reserved;
};
static inline int silo_futex_wait_any(const void *const *words, const uint64_t *seen, int count,
                                      int64_t timeout_ns) {
    struct silo_futex_waitv waits[FUTEX_MOST];
    struct timespec until;
    for (int i = 0; i < count; i++) {
        waits[i].value = (uint32_t)seen[i];
        waits[i].address = (uint64_t)(uintptr_t)words[i];
        waits[i].flags = 2; /* FUTEX_32, shared */
        waits[i].reserved = 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    timeout_ns += until.tv_nsec;
    until.tv_sec += timeout_ns / 1000000000;
    until.tv_nsec = timeout_ns % 1000000000;
    long r = syscall(449, waits, count, 0, &until, CLOCK_MONOTONIC);
    if (r < 0 && errno == ENOSYS) return silo_futex_wait(words[0], seen[0], 20000000);
    return r < 0 ? -errno : 0;
}

/* Big-endian fields, as RocketMQ's files have them. */
static inline uint32_t silo_be32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}
static inline uint64_t silo_be64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}
static inline uint16_t silo_be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline void silo_put32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}
static inline void silo_put64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}
static inline void silo_put16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

/* Fault points. A process of a build with -DSILO_FAULT_POINTS kills itself when it passes the point
 * named in SILOMQ_FAULT ("name:n") for the n-th time. Only one process does: it must first unlink
 * the file named in SILOMQ_FAULT_TOKEN. In any other build SILO_FAULT does nothing. */
#ifdef SILO_FAULT_POINTS
static inline void silo_fault(const char *name) {
    static __thread long left = -1;
    static __thread char armed[64];
    if (left < 0) {
        const char *spec = getenv("SILOMQ_FAULT");
        left = 0;
        if (spec && strlen(spec) < sizeof armed) {
            strcpy(armed, spec);
            char *colon = strrchr(armed, ':');
            if (colon) {
                left = atol(colon + 1);
                *colon = 0;
            }
        }
    }
    if (left == 0 || strcmp(armed, name) != 0 || --left != 0) return;
    const char *token = getenv("SILOMQ_FAULT_TOKEN");
    if (token && unlink(token) == 0) kill(getpid(), SIGKILL);
}
#define SILO_FAULT(name) silo_fault(name)
#else
#define SILO_FAULT(name) ((void)0)
#endif

#endif
