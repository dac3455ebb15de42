/*
 * Programs: what an actor of the stage does, by name. A scene says for each actor
 * which one it runs, and with which parameters (struct stage_role).
 *
 * A program is plain code. It runs in the actor's process, from its beginning at
 * the actor's first move to its end, and stops before each step until a move lets
 * it go on. What it does by the real path (lock/, db/, server/order/) stops by
 * itself, through the step hooks. What it does by hand, as the lessons with wrong
 * code do, it does with program_sql() and program_redis(), each call a step.
 *
 * At the end of a schedule whatever a program is in returns at once with a
 * failure, and turns_ending() says so: a loop has to ask. The process, its
 * store and its connections stay; so a program frees what it has made, and keeps
 * nothing in static variables.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "db/store_async.h"
#include "server/base/app.h"
#include "server/lab/turns/turns.h"
#include "server/order/lock_tasks.h"

/* A program's belongings on the stage. */
struct program_actor {
    unsigned index; /* from 0: a is 0 */
    const struct stage_scene *scene;
    struct stage_role role; /* with all defaults filled in */
    struct worker worker;   /* a lock session, a reader; its app has the rest */
    struct intake *intake;
    struct app *app; /* of the process */
    const char *redis_url;
    const char *db_path;
    struct order order; /* the last one of program_order() */
};

/* A check that the store's audit cannot make: done once all is over. */
struct program_check {
    const char
        *first; /* 0: SELECT has no table yet, and all is well; or NULL */
    const char *select; /* a number; 0: all is well */
    const char *wrong;
};

typedef void program_function(struct program_actor *self);

/* A row of programs.txt. */
struct program {
    program_function *run;
    const struct program_check *check; /* NULL = none */
    unsigned orders; /* more than so many are a fault: "two-orders"; of all
                         actors that have one key together, more than one */
    bool is_lesson;  /* it makes statements of its own, and keeps others out by
                       them: what is taught, wrong or right */
    const char *deeds; /* of program_run_instance, which sells in batches, and
                          program_under_locks: a letter for each */
    const char *name;
    const char *english, *chinese; /* what it does: "orders once" */
};

#define ROW(run, ...) program_function run;
#include "server/lab/programs/programs.inc"

/* An instance of the service sells in batches, all other programs order by order. */
static inline bool program_is_instance(const struct program *program)
{
    return program->run == program_run_instance;
}

/* NULL: there is none of that name. */
const struct program *program_find(const char *name);

/* INDEX from 0 until it returns NULL. */
const struct program *program_at(size_t index);

/* ---- by the real path ---------------------------------------------------- */

/* One order, from its lock to its answer, which is in self->order. */
void program_order(struct program_actor *self);

/* The lock of PRODUCT, 0 = of the role's user, on the service's terms. LOCK is for
 * giving it back. */
enum dlock_status program_take(struct program_actor *self, int64_t product,
                               struct lock_task *lock);
enum dlock_status program_give(struct program_actor *self,
                               struct lock_task *lock);

/* Writes of store_async.h, which begin as a step named STEP, and are waited for. WORDS
 * say what is written. */
enum store_status program_write(struct program_actor *self, const char *step,
                                const char *words, enum store_verb verb,
                                struct store_write *write);

/* ---- by hand: each call is one step --------------------------------------- */

enum program_answer {
    PROGRAM_OK,
    PROGRAM_NO,   /* it was refused, and *value or the reply says why */
    PROGRAM_BUSY, /* SQL: another actor is in a transaction */
    PROGRAM_LOST, /* the reply was lost, or the program is ending */
};

/*
 * One SQL statement, on a connection that the actor has until its program ends:
 * with BEGIN and COMMIT a transaction goes over several steps. The text is made as
 * printf does. *VALUE, which may be NULL, is the first column of the first row, an
 * integer; of INSERT, UPDATE and DELETE the number of rows. PROGRAM_NO: there is no
 * row, or a constraint refuses.
 */
enum program_answer program_sql(struct program_actor *self, int64_t *value,
                                const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for the actor's order, of SEGMENT: its words are short, since an order has
 * a dozen columns. */
enum program_answer program_insert(struct program_actor *self, int64_t segment);

/* One Redis command; WORDS end with NULL. REPLY is its text: "(nil)" if there is
 * nothing. PROGRAM_NO: an error. */
enum program_answer program_redis(struct program_actor *self, char reply[],
                                  size_t size, const char *words[]);

/* For actor.c, when a program has returned: ends what its calls of these have opened. */
void program_steps_end(void);

/* Before an order that is placed is counted: how its customer was told of it. */
void program_keep_id(const struct order *order);

/* The answer to the customer of the actor's order. */
void program_reply(enum order_outcome outcome);

/* A payment of the order that has the role's key, as program_cancel() is a cancel; a
 * restock under KEY ("" = none): a step each. */
void program_pay(struct program_actor *self);
void program_restock(struct program_actor *self, const char *key);

/* A turns_note() of what no check can see: a broken promise. */
void program_is_wrong(const char *text);

/* A number from the database, by the words of a SELECT. False: it cannot be read. */
bool program_number(const char *db_path, const char *select, int64_t *number);

/* The checks in programs.txt; the first is of those that add units under one key. */
extern const struct program_check program_restocks;
extern const struct program_check lesson_sale_ended, lesson_bill_paid;

#endif
