/* See async_note.h. */
#include "tests/support/async_note.h"

#include "tests/support/lock_rig.h"

void note_done(void *ctx, struct dlock_session *session,
               enum dlock_status status, const struct dlock_grant *grant,
               const struct dlock_error *error)
{
    struct note *note = ctx;

    note->status = status;
    note->granted = grant != NULL;
    if (grant != NULL)
        note->grant = *grant;
    memcpy(note->text, error->text, sizeof(note->text));
    note->thread = pthread_self();
    if (note->close)
        dlock_session_close(session);
    (void)atomic_fetch_add(&note->n, 1);
}

enum dlock_status note_await(struct note *note)
{
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(&note->n) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&note->n), 1);
    return note->status;
}

enum dlock_status note_begin(struct dlock_session *session, const char *name,
                             unsigned wait_ms, struct note *note)
{
    struct dlock_terms terms = {.wait_ms = wait_ms};

    return dlock_acquire_async(session, name, &terms, note_done, note, NULL);
}
