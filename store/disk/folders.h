/* Folders of mapped files, found with few calls of the operating system. Like store/disk/files.py,
 * these functions open below the descriptor of a folder and follow no symbolic link. */
#ifndef SILO_FOLDERS_H
#define SILO_FOLDERS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SILO_FILE_NAME = 20 }; /* digits in the name of a mapped file */

/* Opens the folder `name` below `fd` to read its entries. NULL with errno for an error. */
static inline DIR *silo_open_folder(int fd, const char *name) {
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return NULL;
    DIR *folder = fdopendir(inner);
    if (!folder) {
        int error = errno;
        close(inner);
        errno = error;
    }
    return folder;
}

/* Whether there is no such folder: the name is free, or a file's or a link's. */
static inline int silo_no_folder(void) {
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
}

/* The next name in a folder. NULL behind the last one, or with errno not 0 for an error. */
static inline const char *silo_next_name(DIR *folder) {
    errno = 0;
    struct dirent *entry = readdir(folder);
    return entry ? entry->d_name : NULL;
}

/* The number that a name stands for, which is written without leading zeros; -1 for other names and
 * for numbers above `most`. */
static inline int64_t silo_number(const char *name, int64_t most) {
    int64_t value = 0;
    size_t length = strlen(name);
    if (length == 0 || length > 18 || (name[0] == '0' && length > 1)) return -1;
    for (; *name; name++) {
        if (*name < '0' || *name > '9') return -1;
        value = value * 10 + (*name - '0');
    }
    return value <= most ? value : -1;
}

/* The offset in the name of a mapped file; -1 for other names. */
static inline int64_t silo_file_base(const char *name) {
    int64_t value = 0;
    if (strlen(name) != SILO_FILE_NAME) return -1;
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || value > INT64_MAX / 10 - 1) return -1;
        value = value * 10 + (*name - '0');
    }
    return value;
}

/* Reads up to `size` bytes from the start of the file `name` below `fd`: how many, -1 with errno
 * for an error. */
static inline ssize_t silo_read_start(int fd, const char *name, void *to, size_t size) {
    int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return -1;
    /* Not fstat: its symbol is of glibc 2.33, and wheels would not install on older systems. */
    struct statx about;
    if (statx(file, "", AT_EMPTY_PATH, STATX_TYPE, &about) == 0 && !S_ISREG(about.stx_mode)) {
        close(file); /* a pipe has no bytes to wait for */
        errno = S_ISDIR(about.stx_mode) ? EISDIR : ENODEV;
        return -1;
    }
    /* Without this, the kernel reads ahead: in a sparse file that takes memory for zeros. */
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    ssize_t found;
    do found = pread(file, to, size, 0);
    while (found < 0 && errno == EINTR);
    int error = errno;
    close(file);
    errno = error;
    return found;
}

#endif
