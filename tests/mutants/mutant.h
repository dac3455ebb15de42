/*
 * Included by each source that has planted bugs, in the copy that tests/mutants/run
 * makes. A number in MUTANT switches one of them on; MUTANT_REACHED names a file of a
 * byte for each, in which those are marked that were reached.
 *
 * Each source has its own copy of what is here: libdlock's symbols stay as they are.
 */
#ifndef MUTANT_H
#define MUTANT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MUTANTS_MAX 4096

static unsigned char mutant_nowhere[MUTANTS_MAX];
static volatile unsigned char *mutant_reached = mutant_nowhere;
static int mutant_number;

static inline bool mutant_on(int number)
{
    if (!mutant_reached[number])
        mutant_reached[number] = 1;
    return number == mutant_number;
}

/* A mapped file outlives a kill -9, and children share it. */
__attribute__((constructor)) static void mutant_begin(void)
{
    const char *number = getenv("MUTANT"), *path = getenv("MUTANT_REACHED");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *file = MAP_FAILED;

    if (number)
        mutant_number = atoi(number);
    if (fd < 0)
        return;
    file = mmap(NULL, MUTANTS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file != MAP_FAILED)
        mutant_reached = file;
    close(fd);
}

#endif
