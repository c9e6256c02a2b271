/* Whether to spin while there is no work, by the pauses before this one.
 *
 * After some pauses in a row that were longer than the spin, spinning is a waste: only the core
 * would be kept busy. A process that sleeps at once learns by its sleep as well, so one short pause
 * has it spin again. */
#ifndef SILO_PAUSES_H
#define SILO_PAUSES_H

#include <stdint.h>

enum { PAUSES_IN_VAIN = 3 };

/* All zeros is a good beginning. */
typedef struct {
    int in_vain;   /* how many pauses in a row were longer than the spin */
    int64_t since; /* when the last work was over, monotonic ns */
} silo_pauses;

/* Notes that work came at `now`. */
static inline void silo_end_pause(silo_pauses *pauses, int64_t now, int64_t spin_ns) {
    if (now - pauses->since <= spin_ns)
        pauses->in_vain = 0;
    else if (pauses->in_vain < PAUSES_IN_VAIN)
        pauses->in_vain++;
}

/* Whether to spin on at `now`. */
static inline int silo_may_spin(const silo_pauses *pauses, int64_t now, int64_t spin_ns) {
    return pauses->in_vain < PAUSES_IN_VAIN && now - pauses->since < spin_ns;
}

#endif
