/*
 * An HTTP thread's mailbox: whoever is left in it goes on once and only once,
 * by its bell or by being taken, however many threads ring at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>

#include "server/http/wake.h"

enum { RINGERS = 4, LETTERS = 20000, CHAIN = 5 };

static void only_the_first_rings(void **state)
{
    struct wake_box box = {0};
    struct wake_letter letters[3];

    (void)state;
    assert_null(wake_take(&box));
    letters[0].next = &letters[1];
    assert_true(wake_leave(&box, &letters[0], &letters[1]));
    assert_false(wake_leave(&box, &letters[2], &letters[2]));
    /* The bell is not among those that it takes. */
    assert_ptr_equal(wake_take(&box), &letters[2]);
    assert_ptr_equal(letters[2].next, &letters[1]);
    assert_null(letters[1].next);
    /* An empty box: there is need for a bell again. */
    assert_true(wake_leave(&box, &letters[1], &letters[1]));
    assert_null(wake_take(&box));
}

/* A parked connection: its letter first, as in mhd.c. */
struct parked {
    struct wake_letter letter;
    atomic_int resumed;
};

static struct wake_box mailbox;
static struct parked parked[RINGERS][LETTERS];
static sem_t bell;

static void *ring(void *arg)
{
    struct parked *mine = arg;

    for (int i = 0; i < LETTERS; i += CHAIN) {
        for (int j = i; j < i + CHAIN - 1; j++)
            mine[j].letter.next = &mine[j + 1].letter;
        if (wake_leave(&mailbox, &mine[i].letter,
                       &mine[i + CHAIN - 1].letter)) {
            atomic_fetch_add(&mine[i].resumed, 1);
            sem_post(&bell);
        }
    }
    return NULL;
}

static int take(void)
{
    struct wake_letter *letter, *next;
    int n = 0;

    for (letter = wake_take(&mailbox); letter; letter = next, n++) {
        next = letter->next;
        atomic_fetch_add(&((struct parked *)letter)->resumed, 1);
    }
    return n;
}

/* Only after a bell is anything taken: nobody may be left lying. */
static void all_go_on_once(void **state)
{
    pthread_t threads[RINGERS];
    int gone = 0;

    (void)state;
    assert_int_equal(sem_init(&bell, 0, 0), 0);
    for (int i = 0; i < RINGERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ring, parked[i]), 0);
    while (gone < RINGERS * LETTERS) {
        sem_wait(&bell);
        gone += 1 + take();
    }
    for (int i = 0; i < RINGERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RINGERS; i++)
        for (int j = 0; j < LETTERS; j++)
            assert_int_equal(atomic_load(&parked[i][j].resumed), 1);
    assert_null(wake_take(&mailbox));
    sem_destroy(&bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_rings),
        cmocka_unit_test(all_go_on_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
