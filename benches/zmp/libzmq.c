/* The peer of the bench: DEALER and ROUTER of libzmq, each in a process of its own.
 *
 *   libzmq sink                          a ROUTER that counts what comes, until a record of one byte
 *   libzmq source ENDPOINT SIZE MILLIS   a DEALER that sends for so long, and that record behind it
 *   libzmq echo                          a ROUTER that sends everything back, until it is killed
 *   libzmq ask ENDPOINT SIZE MILLIS N    a DEALER with N records under way, for so long
 *
 * sink and echo print their endpoint first. sink, source and ask print one line of figures last. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

/* Round trips whose times are kept. */
#define KEPT 2000000

static void must(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "%s: %s\n", what, zmq_strerror(errno));
        exit(1);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double cpu(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *open_socket(int type) {
    void *context = zmq_ctx_new();
    must(context != NULL, "zmq_ctx_new");
    void *socket = zmq_socket(context, type);
    must(socket != NULL, "zmq_socket");
    return socket;
}

static void *bind_router(void) {
    char endpoint[256];
    size_t length = sizeof endpoint;
    void *router = open_socket(ZMQ_ROUTER);
    must(zmq_bind(router, "tcp://127.0.0.1:*") == 0, "zmq_bind");
    must(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &length) == 0, "endpoint");
    printf("%s\n", endpoint);
    fflush(stdout);
    return router;
}

/* A DEALER. */
static void *connect_dealer(const char *endpoint) {
    void *dealer = open_socket(ZMQ_DEALER);
    must(zmq_connect(dealer, endpoint) == 0, "zmq_connect");
    return dealer;
}

static void sink(void) {
    void *router = bind_router();
    zmq_msg_t id, record;
    uint64_t began = 0, count = 0, ended = 0;
    zmq_msg_init(&id);
    zmq_msg_init(&record);
    for (;;) {
        must(zmq_msg_recv(&id, router, 0) >= 0, "recv");
        must(zmq_msg_recv(&record, router, 0) >= 0, "recv");
        if (count++ == 0) {
            began = now();
        }
        if (zmq_msg_size(&record) == 1) {
            ended = now();
            break;
        }
    }
    printf("%.0f %.9f %.6f\n", (double)(count - 1), (double)(ended - began) / 1e9, cpu());
    fflush(stdout);
    must(zmq_msg_send(&id, router, ZMQ_SNDMORE) >= 0, "send");
    must(zmq_send(router, "", 0, 0) >= 0, "send");
    zmq_close(router);
}

static void source(const char *endpoint, size_t size, uint64_t millis) {
    void *dealer = connect_dealer(endpoint);
    char *bytes = calloc(1, size);
    must(bytes != NULL, "memory");
    uint64_t until = now() + millis * 1000000u;
    for (uint64_t turn = 0; turn % 64 != 0 || now() < until; turn++) {
        zmq_msg_t record;
        must(zmq_msg_init_size(&record, size) == 0, "memory");
        memcpy(zmq_msg_data(&record), bytes, size);
        must(zmq_msg_send(&record, dealer, 0) >= 0, "send");
    }
    must(zmq_send(dealer, "e", 1, 0) >= 0, "send");
    must(zmq_recv(dealer, bytes, size, 0) >= 0, "recv");
    printf("%.6f\n", cpu());
    fflush(stdout);
    zmq_close(dealer);
}

static void echo(void) {
    void *router = bind_router();
    zmq_msg_t id, record;
    zmq_msg_init(&id);
    zmq_msg_init(&record);
    for (;;) {
        must(zmq_msg_recv(&id, router, 0) >= 0, "recv");
        must(zmq_msg_recv(&record, router, 0) >= 0, "recv");
        must(zmq_msg_send(&id, router, ZMQ_SNDMORE) >= 0, "send");
        must(zmq_msg_send(&record, router, 0) >= 0, "send");
    }
}

static int by_size(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void ask(const char *endpoint, size_t size, uint64_t millis, unsigned under_way) {
    void *dealer = connect_dealer(endpoint);
    char *bytes = calloc(1, size);
    uint32_t *times = malloc(KEPT * sizeof *times);
    uint64_t *sent = calloc(under_way, sizeof *sent);
    must(bytes != NULL && times != NULL && sent != NULL, "memory");
    /* Answers come in the order of the questions. */
    for (unsigned first = 0; first < under_way; first++) {
        sent[first] = now();
        must(zmq_send(dealer, bytes, size, 0) >= 0, "send");
    }
    uint64_t began = now(), until = began + millis * 1000000u, count = 0, time = began;
    while (time < until) {
        zmq_msg_t record;
        zmq_msg_init(&record);
        must(zmq_msg_recv(&record, dealer, 0) >= 0, "recv");
        zmq_msg_close(&record);
        time = now();
        if (count < KEPT) {
            times[count] = (uint32_t)(time - sent[count % under_way]);
        }
        sent[count % under_way] = time;
        count++;
        must(zmq_msg_init_size(&record, size) == 0, "memory");
        memcpy(zmq_msg_data(&record), bytes, size);
        must(zmq_msg_send(&record, dealer, 0) >= 0, "send");
    }
    uint64_t kept = count < KEPT ? count : KEPT;
    qsort(times, kept, sizeof *times, by_size);
    printf("%.0f %.9f %.3f %.6f\n", (double)count, (double)(time - began) / 1e9,
           kept == 0 ? 0 : times[kept / 2] / 1e3, cpu());
    fflush(stdout);
    exit(0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "sink") == 0) {
        sink();
    } else if (strcmp(mode, "source") == 0 && argc == 5) {
        source(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    } else if (strcmp(mode, "echo") == 0) {
        echo();
    } else if (strcmp(mode, "ask") == 0 && argc == 6) {
        ask(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
            (unsigned)strtoul(argv[5], NULL, 10));
    } else {
        fprintf(stderr, "libzmq sink | source ENDPOINT SIZE MILLIS | echo | ask ENDPOINT SIZE MILLIS N\n");
        return 2;
    }
    return 0;
}
