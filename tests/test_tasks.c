/*
 * Tasks: each is run or refused, once, or withdrawn; from however
 * many threads; and nothing waits for ever when the pool stops.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "server/base/app.h"
#include "server/base/tasks.h"
#include "tests/support/store_rig.h"

#define WORKERS     3
#define SUBMITTERS  4
#define EACH        5000  /* tasks of a submitter */
#define JOBS_MAX    20000 /* those of all submitters */
#define PATIENCE_MS 20000

enum how { AT_ONCE, TO_GATE, TILL_STOP };

struct fixture {
    struct store_rig rig;
    struct app app;
    struct tasks *tasks;
    sem_t at_gate, gate; /* a task has come to the gate; one may go on */
    atomic_int turns;    /* tasks that were run */
    struct job *late;    /* that is handed in by one refused; NULL = none */
    struct job *jobs;    /* JOBS_MAX, all zero */
};

struct job {
    struct task task;
    struct fixture *f;
    enum how how;
    atomic_int runs, refusals;
    int turn;
    bool was_withdrawn;
    bool is_well; /* it had what a task needs, and waited as it should */
};

/* ---- tasks ----------------------------------------------------------------- */

static bool is_stopped(const struct worker *worker, int ms)
{
    struct pollfd stop = {.fd = worker->stop_fd, .events = POLLIN};

    return poll(&stop, 1, ms) == 1;
}

static void submit(struct fixture *f, struct job *job);

static void run(struct task *task, struct worker *worker)
{
    struct job *job = task->owner;
    struct fixture *f = job->f;

    if (!worker) {
        if (f->late && job != f->late)
            submit(f, f->late);
        atomic_fetch_add(&job->refusals, 1);
        return;
    }
    job->turn = atomic_fetch_add(&f->turns, 1);
    if (job->how != AT_ONCE) {
        job->is_well = worker->app == &f->app && worker->reader &&
                       worker->session && !is_stopped(worker, 0);
        sem_post(&f->at_gate);
    }
    if (job->how == TO_GATE)
        sem_wait(&f->gate);
    if (job->how == TILL_STOP) {
        job->is_well &= is_stopped(worker, PATIENCE_MS);
        usleep(20000); /* a stop that does not wait for us is over by then */
    }
    atomic_fetch_add(&job->runs, 1);
}

static void submit(struct fixture *f, struct job *job)
{
    job->f = f;
    job->task = (struct task){.run = run, .owner = job};
    tasks_submit(f->tasks, &job->task);
}

/* A thread is in the job when this returns, until the gate is opened once. */
static void occupy(struct fixture *f, struct job *job)
{
    job->how = TO_GATE;
    submit(f, job);
    sem_wait(&f->at_gate);
}

static void expect(const struct job *job, int runs, int refusals)
{
    assert_int_equal(atomic_load(&job->runs), runs);
    assert_int_equal(atomic_load(&job->refusals), refusals);
}

/* It was withdrawn, or run or refused, once. */
static void expect_once(const struct job *job)
{
    assert_int_equal(atomic_load(&job->runs) + atomic_load(&job->refusals) +
                         job->was_withdrawn,
                     1);
}

/* ---- a pool ---------------------------------------------------------------- */

static int set_up(void **state)
{
    const struct dlock_options locks = {.strategy = "none"};
    struct fixture *f = *state = calloc(1, sizeof(*f));

    assert_non_null(f);
    assert_non_null(f->jobs = calloc(JOBS_MAX, sizeof(struct job)));
    store_rig_begin(&f->rig);
    store_rig_open(&f->rig, (struct store_options){0});
    f->app.store = f->rig.store;
    assert_int_equal(dlock_open(&locks, &f->app.locks, NULL), DLOCK_OK);
    return sem_init(&f->at_gate, 0, 0) | sem_init(&f->gate, 0, 0);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < WORKERS; i++)
        sem_post(&f->gate); /* that a failed test left shut */
    tasks_close(f->tasks);
    dlock_close(f->app.locks);
    store_rig_end(&f->rig);
    free(f->jobs);
    free(f);
    return 0;
}

static void open_pool(struct fixture *f, size_t n)
{
    f->tasks = tasks_open(&f->app, "test", n);
    assert_non_null(f->tasks);
}

/* ---- what happens to tasks ------------------------------------------------- */

/* None can go on before all are there: one thread could not run them. */
UNIT_TEST_OF(struct fixture *f, tasks_run_side_by_side)
{
    open_pool(f, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        occupy(f, &f->jobs[i]);
    for (int i = 0; i < WORKERS; i++) {
        assert_true(f->jobs[i].is_well);
        sem_post(&f->gate);
    }
}

/* One thread runs them in order; what is withdrawn in time is not run. */
UNIT_TEST_OF(struct fixture *f, first_come_first_served_but_what_is_withdrawn)
{
    struct job *jobs = f->jobs, *gates = &f->jobs[JOBS_MAX - 3];
    int turn = 1;

    open_pool(f, 1);
    occupy(f, &gates[0]);
    for (int i = 0; i < 100; i++)
        submit(f, &jobs[i]);
    for (int i = 0; i < 100; i += 3) { /* the first and the last, too */
        assert_true(tasks_withdraw(f->tasks, &jobs[i].task));
        assert_false(tasks_withdraw(f->tasks, &jobs[i].task));
    }
    assert_false(tasks_withdraw(f->tasks, &gates[0].task)); /* it has begun */
    sem_post(&f->gate);
    occupy(f, &gates[1]);
    for (int i = 0; i < 100; i++) {
        expect(&jobs[i], i % 3 != 0, 0);
        if (i % 3 != 0)
            assert_int_equal(jobs[i].turn, turn++);
    }
    assert_false(tasks_withdraw(f->tasks, &jobs[1].task)); /* it has ended */
    submit(f, &jobs[0]); /* and may be handed in again */
    sem_post(&f->gate);
    occupy(f, &gates[2]);
    expect(&jobs[0], 1, 0);
    sem_post(&f->gate);
}

/* Every third task is withdrawn soon, begun or not. */
static void *submit_many(void *arg)
{
    struct job *jobs = arg;
    struct fixture *f = jobs[0].f;

    for (int i = 0; i < EACH; i++) {
        submit(f, &jobs[i]);
        if (i % 3 == 0)
            jobs[i].was_withdrawn = tasks_withdraw(f->tasks, &jobs[i].task);
        if (i == EACH / 4)
            sem_post(&f->at_gate);
    }
    return NULL;
}

/* The pool is stopped when all is submitted, or meanwhile. */
UNIT_TEST_OF(struct fixture *f, from_many_threads)
{
    for (int all = 0; all <= 1; all++) {
        pthread_t threads[SUBMITTERS];

        open_pool(f, WORKERS);
        memset(f->jobs, 0, JOBS_MAX * sizeof(struct job));
        for (size_t i = 0; i < SUBMITTERS; i++) {
            f->jobs[i * EACH].f = f;
            assert_int_equal(pthread_create(&threads[i], NULL, submit_many,
                                            &f->jobs[i * EACH]),
                             0);
        }
        sem_wait(&f->at_gate);
        if (!all)
            tasks_stop(f->tasks);
        for (int i = 0; i < SUBMITTERS; i++)
            pthread_join(threads[i], NULL);
        tasks_close(f->tasks);
        f->tasks = NULL;
        for (int i = 0; i < SUBMITTERS * EACH; i++)
            expect_once(&f->jobs[i]);
        while (sem_trywait(&f->at_gate) == 0)
            continue;
    }
}

UNIT_TEST_OF(struct fixture *f, stopping_ends_waits_and_refuses_the_rest)
{
    struct job *waits = &f->jobs[3], *late = &f->jobs[4];

    open_pool(f, 1);
    waits->how = TILL_STOP;
    submit(f, waits);
    sem_wait(&f->at_gate);
    for (int i = 0; i < 3; i++)
        submit(f, &f->jobs[i]);
    f->late = late;
    tasks_stop(f->tasks);
    expect(waits, 1, 0); /* it has ended */
    assert_true(waits->is_well);
    assert_false(tasks_withdraw(f->tasks, &f->jobs[0].task));
    tasks_stop(f->tasks);
    for (int i = 0; i < 3; i++)
        expect(&f->jobs[i], 0, 1);
    expect(late, 0, 3);
}

/* Its threads need readers, for which there is no database any more. */
UNIT_TEST_OF(struct fixture *f, a_pool_that_cannot_open_is_none)
{
    temp_dir_remove(&f->rig.dir);
    assert_null(tasks_open(&f->app, "test", 2));
    tasks_stop(NULL);
    tasks_close(NULL);
}
