/* Writing to a file that is open, from compiled code. */
#ifndef SILO_WRITING_H
#define SILO_WRITING_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* Writes `size` bytes at position `at` of a file: how many it took, less than `size` after an
 * error. */
static inline uint64_t silo_write_at(int fd, const uint8_t *bytes, uint64_t size, uint64_t at) {
    uint64_t done = 0;
    while (done < size) {
        ssize_t taken = pwrite(fd, bytes + done, size - done, (off_t)(at + done));
        if (taken == 0 || (taken < 0 && errno != EINTR)) break;
        if (taken > 0) done += (uint64_t)taken;
    }
    return done;
}

#endif
