/*
 * OpenSSL on a socket that others wait for. Its own way to a socket would write with
 * write(2), and a server that has gone would end the host program by SIGPIPE; so it is given
 * another one, by send(2) and recv(2).
 *
 * The files are read for each connection: it takes less than the handshake, and a certificate
 * that was renewed counts from then on. (The system's list of trusted ones is long: name a CA
 * where connections are many.)
 */
#include "lock/dlock_more.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "lock/core/client.h"
#include "lock/core/net.h"

/* struct dlock_tls is the SSL itself. */
static SSL *ssl_of(struct dlock_tls *tls)
{
    return (SSL *)tls;
}

/* The way to the socket, whose number is the BIO's data -------------------------- */

static int fd_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

/* N bytes have gone through: 1; or none for now, and WAY, reading or writing, is to be
 * tried again; or none. */
static int went(BIO *bio, ssize_t n, int way, size_t *done)
{
    /* The flags stay from the last time: without this, an end would look like "try
     * again". */
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_flags(bio, way | BIO_FLAGS_SHOULD_RETRY);
    *done = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *done)
{
    ssize_t n = send(fd_of(bio), bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    return went(bio, n, BIO_FLAGS_WRITE, done);
}

static int bio_read(BIO *bio, char *bytes, size_t size, size_t *done)
{
    ssize_t n = recv(fd_of(bio), bytes, size, MSG_DONTWAIT);

    return went(bio, n, BIO_FLAGS_READ, done);
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    /* OpenSSL flushes after each flight of a handshake, and takes a 0 for a failure; no
     * byte waits in this BIO. */
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method; /* NULL: no memory */

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlock");
    if (method == NULL)
        return;
    (void)BIO_meth_set_write_ex(method, bio_write);
    (void)BIO_meth_set_read_ex(method, bio_read);
    (void)BIO_meth_set_ctrl(method, bio_ctrl);
}

static BIO *make_bio(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *bio;

    /* The method is the process's, and never freed: connections of all clients have it. */
    (void)pthread_once(&once, make_method);
    bio = method != NULL ? BIO_new(method) : NULL;
    if (bio != NULL) {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): a BIO has no room but this */
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* Beginning ------------------------------------------------------------------ */

/* OpenSSL's text for its last failure. */
static enum dlock_status failed(const char *what)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    /* OpenSSL's queue of errors is the thread's, and the program's: nothing of ours may
     * stay in it. */
    ERR_clear_error();
    return dlock_error_set(DLOCK_UNREACHABLE, "TLS: %.100s: %.80s", what,
                           why == NULL ? strerror(errno) : why);
}

/* False: a file is not there, or not what it should be. */
static bool read_files(SSL_CTX *ctx, const struct dlock_address *address)
{
    /* A file may have both, the certificate and its key. */
    const char *key = address->key[0] != '\0' ? address->key : address->cert;
    bool has_cert = address->cert[0] != '\0';
    const char *bad = NULL;

    if ((address->ca[0] == '\0'
             ? SSL_CTX_set_default_verify_paths(ctx)
             : SSL_CTX_load_verify_file(ctx, address->ca)) != 1)
        bad = address->ca;
    else if (has_cert &&
             SSL_CTX_use_certificate_chain_file(ctx, address->cert) != 1)
        bad = address->cert;
    else if (has_cert &&
             SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        bad = key;
    if (bad != NULL)
        (void)failed(bad);
    return bad == NULL;
}

/* The certificate must be that of HOST. */
static bool expect(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    unsigned char number[sizeof(struct in6_addr)];

    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    /* A certificate names an address in a field of its own; and an address is not sent as
     * the server's name (SNI), which the standard forbids. */
    if (inet_pton(AF_INET, host, number) == 1 ||
        inet_pton(AF_INET6, host, number) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
    return SSL_set1_host(ssl, host) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* Its way to the socket goes with it; NULL is fine. */
static void end(struct dlock_tls *tls)
{
    SSL_free(ssl_of(tls));
}

static struct dlock_tls *begin(const struct dlock_address *address, int fd)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    bool has_memory = ctx != NULL, good = has_memory;
    BIO *bio = NULL;
    SSL *ssl = NULL;

    if (good) {
        (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
        /* A write may take a part of the bytes, as that of a socket: dlock_net_send() goes
         * on behind it. */
        (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        good = read_files(ctx, address);
    }
    if (good && (ssl = SSL_new(ctx)) != NULL)
        bio = make_bio(fd);
    if (bio != NULL) {
        /* The SSL owns the BIO from here on, once for both ways; it does not own the
         * socket. */
        SSL_set_bio(ssl, bio, bio);
        SSL_set_connect_state(ssl);
    }
    if (good)
        good = has_memory = bio != NULL && expect(ssl, address->host);
    if (!has_memory)
        (void)failed("out of memory");
    /* The SSL has counted the context: it lives as long. */
    SSL_CTX_free(ctx);
    if (good)
        return (struct dlock_tls *)ssl;
    SSL_free(ssl);
    return NULL;
}

/* Talking ---------------------------------------------------------------------- */

static enum dlock_status shake(struct dlock_tls *tls)
{
    int done;
    long verdict;

    ERR_clear_error();
    /* errno is looked at below, and OpenSSL sets it only if a call of the kernel's has
     * failed. */
    errno = 0;
    done = SSL_do_handshake(ssl_of(tls));
    if (done == 1)
        return DLOCK_OK;
    if (SSL_get_error(ssl_of(tls), done) == SSL_ERROR_WANT_READ)
        return DLOCK_BUSY;
    verdict = SSL_get_verify_result(ssl_of(tls));
    /* The certificate is the usual reason, and its own text says more than the
     * handshake's. */
    if (verdict == X509_V_OK)
        return failed(errno == 0 ? "the server closed" : "handshake");
    ERR_clear_error();
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "TLS: the server's certificate: %.100s",
                           X509_verify_cert_error_string(verdict));
}

/* A result as of the socket. 0 = closed, with or without a farewell. */
static ssize_t result(struct dlock_tls *tls, int good, const size_t *n)
{
    int why = good == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_of(tls), good);

    if (why == SSL_ERROR_NONE)
        return (ssize_t)*n;
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        errno = EAGAIN;
    /* An error must not look like "try again": dlock_net_receive() would wait for more. */
    else if (errno == 0 || errno == EAGAIN)
        errno = why == SSL_ERROR_SSL ? EPROTO : ECONNRESET;
    return why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t send_tls(struct dlock_tls *tls, const char *bytes, size_t len)
{
    ssize_t sent;
    size_t n = 0;

    ERR_clear_error();
    errno = 0;
    sent = result(tls, SSL_write_ex(ssl_of(tls), bytes, len, &n), &n);
    /* Half a message of the server's is its end, because nothing can be sent before the
     * other half has come. */
    if (sent < 0 && errno == EAGAIN && SSL_want_read(ssl_of(tls)))
        errno = EPROTO;
    return sent;
}

static ssize_t receive(struct dlock_tls *tls, char *bytes, size_t size,
                       bool peek)
{
    size_t n = 0;

    ERR_clear_error();
    errno = 0;
    return result(
        tls, (peek ? SSL_peek_ex : SSL_read_ex)(ssl_of(tls), bytes, size, &n),
        &n);
}

static const struct dlock_tls_kind kind = {
    .begin = begin,
    .shake = shake,
    .send = send_tls,
    .receive = receive,
    .end = end,
};

const struct dlock_strategies dlock_tls = {
    .core = &DLOCK_CORE,
    .all = (const struct dlock_strategy *const[]){NULL},
    .tls = &kind,
};
