/* The metrics page for the compiled modules; shm/metrics.py owns its layout. */
#ifndef SILO_METRICS_H
#define SILO_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "shm/words.h"

enum {
    METRICS_PUT_BYTES = 1024,
    METRICS_REFUSED = 1152,
    METRICS_PUT_TIME = 1280,
    METRICS_STATUSES = 16,

    HISTOGRAM_SUM_NS = 0,
    HISTOGRAM_LONGEST_NS = 8,
    HISTOGRAM_COUNTS = 16,
    HISTOGRAM_STEPS = 27,
};

/* A histogram's step n counts times below SILO_LIMITS_US[n] that are in no step before it. The last
 * step counts all others. */
static const uint64_t SILO_LIMITS_US[HISTOGRAM_STEPS - 1] = {
    1,     2,     5,      10,     20,     50,      100,     200,     500,
    1000,  2000,  5000,   10000,  20000,  50000,   100000,  200000,  500000,
    1000000, 2000000, 3000000, 4000000, 5000000, 10000000, 30000000, 60000000,
};

/* The puts that are not counted yet: their bytes, and of each the low half of the time (epoch us)
 * at which a producer made its records, 0 when it is not known. */
enum { SILO_PUTS_MOST = 1024 };
typedef struct {
    uint32_t sent_us[SILO_PUTS_MOST];
    int count;
    uint64_t bytes;
} silo_puts;

/* Adds to a word of which this process is the only writer. */
static inline void silo_add(void *p, uint64_t amount) {
    silo_store(p, *(const uint64_t *)p + amount);
}

/* Counts one time in its step. The sum and the longest time are the caller's. */
static inline void silo_count_us(uint8_t *histogram, uint64_t us) {
    int step = us < 100 ? 0 : us < 1000 ? 7 : 10;
    while (step < HISTOGRAM_STEPS - 1 && us >= SILO_LIMITS_US[step])
        step++;
    silo_add(histogram + HISTOGRAM_COUNTS + 8 * step, 1);
}

/* Counts one time, with the sum and the longest time. */
static inline void silo_count_time(uint8_t *histogram, int64_t ns) {
    uint64_t time = ns > 0 ? (uint64_t)ns : 0;
    silo_count_us(histogram, time / 1000);
    silo_add(histogram + HISTOGRAM_SUM_NS, time);
    if (time > silo_load(histogram + HISTOGRAM_LONGEST_NS))
        silo_store(histogram + HISTOGRAM_LONGEST_NS, time);
}

/* Counts all puts as over now. A clock that was set back makes a put look as if it came from the
 * future: it took no time then. `metrics` is the page, or NULL: then nothing is counted. */
static inline void silo_count_puts(silo_puts *puts, uint8_t *metrics) {
    uint8_t *histogram = metrics + METRICS_PUT_TIME;
    uint32_t now_us, us;
    uint64_t sum = 0, longest, bytes = puts->bytes;
    int i, count = puts->count;
    puts->count = 0;
    puts->bytes = 0;
    if (metrics == NULL || count == 0)
        return;
    silo_add(metrics + METRICS_PUT_BYTES, bytes);
    now_us = (uint32_t)silo_realtime_us();
    longest = silo_load(histogram + HISTOGRAM_LONGEST_NS) / 1000;
    for (i = 0; i < count; i++) {
        us = now_us - puts->sent_us[i];
        if (puts->sent_us[i] == 0)
            continue;
        if (us > UINT32_MAX / 2)
            us = 0;
        silo_count_us(histogram, us);
        sum += us;
        if (us > longest)
            longest = us;
    }
    silo_add(histogram + HISTOGRAM_SUM_NS, sum * 1000);
    silo_store(histogram + HISTOGRAM_LONGEST_NS, longest * 1000);
}

/* Counts a frame that was answered with this put status. */
static inline void silo_count_refused(uint8_t *metrics, int status) {
    if (metrics != NULL && status >= 0 && status < METRICS_STATUSES)
        silo_add(metrics + METRICS_REFUSED + 8 * status, 1);
}

/* Notes a put that is in the log. Of a batch of many, the first ones count as over when they are
 * in the log, and not when their answers are published. */
static inline void silo_note_put(silo_puts *puts, uint8_t *metrics, uint32_t sent_us,
                                 uint64_t bytes) {
    if (puts->count == SILO_PUTS_MOST)
        silo_count_puts(puts, metrics);
    puts->sent_us[puts->count++] = sent_us;
    puts->bytes += bytes;
}

#endif
