/*
 * What the three files of the public interface share: store.c opens and
 * closes, store_write.c and store_read.c have the verbs.
 */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include "db/committer.h"
#include "db/lockfile.h"
#include "db/soldout.h"
#include "db/sqlite.h"
#include "db/step.h"

struct store {
    char *path;
    bool shared;
    unsigned busy_ms;
    atomic_bool hurry; /* store_end_waits() was called */
    struct lockfile lock;
    struct step step;
    struct committer *committer;
    struct soldout soldout;
};

struct store_reader {
    struct sqlite *db;
    struct step step;
};

#endif
