/* Writing to a file that is open, from compiled code. */
#ifndef SILO_WRITING_H
#define SILO_WRITING_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* Writes `size` bytes at position `at` of a file: how many it took. These are fewer than `size`
 * after an error, whose number is put into `error`. */
static inline uint64_t silo_write_at(int fd, const uint8_t *bytes, uint64_t size, uint64_t at,
                                     int *error) {
    uint64_t done = 0;
    while (done < size) {
        ssize_t taken = pwrite(fd, bytes + done, size - done, (off_t)(at + done));
        if (taken > 0) {
            done += (uint64_t)taken;
        } else if (taken == 0 || errno != EINTR) {
            *error = taken == 0 ? EIO : errno;
            break;
        }
    }
    return done;
}

#endif
