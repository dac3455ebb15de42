/*
 * Stores that are opened: several at once, and one whose server has a name that nobody
 * looks up.
 */
#include "tests/support/store_rig.h"

#include <netdb.h>
#include <semaphore.h>
#include <stdlib.h>

struct opener {
    struct store_rig rig;
    int gate[2]; /* a pipe: nobody begins before it ends */
};

static void opener_main(void *ctx)
{
    struct opener *self = ctx;
    char byte;

    (void)close(self->gate[1]);
    assert_int_equal(read(self->gate[0], &byte, 1), 0);
    store_rig_open(&self->rig,
                   (struct store_options){.shared = true, .busy_ms = 60000});
    (void)store_rig_buy(&self->rig, 1, 1, 1, "");
}

/* It ends without closing anything: its WAL is to be recovered. */
static void leave_wal(void *ctx)
{
    store_rig_open(ctx, (struct store_options){0});
    store_rig_put(ctx, (struct store_product){.id = 1, .initial = 300});
}

/* All want to create the schema, or all to change the journal that a dead process
 * has left: each finds it empty, or half made. */
UNIT_TEST(four_open_it_at_once)
{
    struct opener opener;
    pid_t children[4];

    for (int round = 0; round < 10; round++) {
        bool has_wal;

        store_rig_begin(&opener.rig);
        has_wal = round % 2 && !store_rig_on_mysql(&opener.rig);
        if (has_wal)
            store_rig_join(store_rig_fork(leave_wal, &opener.rig));
        assert_int_equal(pipe(opener.gate), 0);
        for (size_t i = 0; i < COUNT_OF(children); i++)
            children[i] = store_rig_fork(opener_main, &opener);
        (void)close(opener.gate[0]);
        (void)close(opener.gate[1]);
        for (size_t i = 0; i < COUNT_OF(children); i++)
            store_rig_join(children[i]);
        if (!store_rig_on_mysql(&opener.rig)) /* 1: a rollback journal */
            assert_int_equal(store_rig_byte(&opener.rig, "", 18), 1);
        assert_int_equal(store_rig_audit(&opener.rig).sold,
                         has_wal ? COUNT_OF(children) : 0);
        store_rig_end(&opener.rig);
    }
}

/* ---- the name service hangs ----------------------------------------------- */

static sem_t answers;

/* In the place of libc's: there is no such name, which is said once it may be. */
int getaddrinfo_a(int mode, struct gaicb *questions[], int n,
                  struct sigevent *event)
{
    (void)mode, (void)questions, (void)n, (void)event;
    return 0;
}

int gai_error(struct gaicb *question)
{
    (void)question;
    if (sem_trywait(&answers) == 0)
        return EAI_NONAME;
    (void)usleep(1000);
    return EAI_INPROGRESS;
}

static void expect_no_store(const char *why)
{
    const struct store_options options = {.url = "mysql://shop@far.test/shop",
                                          .busy_ms = 200};
    struct store_error error = {.text = ""};
    struct store *store = NULL;

    assert_int_equal(store_open(&options, &store, &error), STORE_IO);
    if (!strstr(error.text, why))
        fail_msg("\"%s\" is not in \"%s\"", why, error.text);
}

/* Without a bound the first would never come back. */
UNIT_TEST(a_name_is_not_waited_for_without_end)
{
    if (!getenv("STORE_RIG_MYSQL"))
        skip(); /* there may be no engine */
    assert_int_equal(sem_init(&answers, 0, 0), 0);
    expect_no_store("look up far.test: the name service does not answer");
    for (int i = 0; i < 2; i++)
        assert_int_equal(sem_post(&answers), 0);
    expect_no_store("look up far.test: Name or service not known");
}
