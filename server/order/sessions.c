/* See sessions.h. */
#include "server/order/sessions.h"

#include <stdlib.h>

#include "server/base/config.h"

void sessions_init(struct sessions *sessions, struct dlock *client)
{
    sessions->client = client;
    TAILQ_INIT(&sessions->all);
    sessions->n = 0;
}

struct lock_session *session_open(struct sessions *sessions)
{
    struct lock_session *session;

    if (sessions->n == CONFIG_SESSIONS_MAX || /* config_rules_fit() */
        !(session = calloc(1, sizeof(*session))))
        return NULL;
    if (dlock_session_open(sessions->client, &session->dlock, NULL) !=
        DLOCK_OK) {
        free(session);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&sessions->all, session, place);
    sessions->n++;
    return session;
}

static void session_close(struct sessions *sessions,
                          struct lock_session *session)
{
    TAILQ_REMOVE(&sessions->all, session, place);
    sessions->n--;
    dlock_session_close(session->dlock);
    free(session);
}

struct lock_session *session_take(struct sessions *sessions,
                                  const struct lock_session *preferred,
                                  bool to_wait)
{
    struct lock_session *best = NULL, *session;

    TAILQ_FOREACH(session, &sessions->all, place) {
        if (session->in_use || session->retired)
            continue;
        if (session == preferred) {
            best = session;
            break;
        }
        /* The first that is as it should be, or else the first. */
        if (!best ||
            ((session->holds == 0) == to_wait && (best->holds == 0) != to_wait))
            best = session;
    }
    if (!best || (to_wait && best->holds > 0 && best != preferred)) {
        session = session_open(sessions);
        best = session ? session : best;
    }
    if (best)
        best->in_use = true;
    return best;
}

void session_settle(struct sessions *sessions, struct lock_session *session)
{
    session->in_use = false;
    if (session->retired && session->holds == 0)
        session_close(sessions, session);
}

void sessions_release(struct sessions *sessions)
{
    struct lock_session *session, *next;

    for (session = TAILQ_FIRST(&sessions->all); session; session = next) {
        next = TAILQ_NEXT(session, place);
        session_close(sessions, session);
    }
}
