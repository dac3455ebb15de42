# stockade: an order service for flash sales, and the locks it needs.
#
#   make demo       install what is missing, build, show the oversell and its cure
#   make test       install what is missing, build, run the tests
#   make            build build/stockade and build/libdlock.a
#   make loadtest   one load test: LOCK= INSTANCES= CONNECTIONS= STOCK= ...
#   make lint       formatters and static analysis
#   make test-san   the tests under address, undefined and thread sanitizers
#   make deps       install the packages that building and running need
#   make clean
#
# SAN=address,undefined or SAN=thread builds into a folder of its own.

CC      ?= gcc
CFLAGS  ?= -O2 -g
WARN    := -std=c11 -Wall -Wextra -Wconversion -Wshadow -Wvla \
           -Wstrict-prototypes -Wmissing-prototypes
WERROR  ?=
SAN     ?=
comma   := ,
B       := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)

PKGS    := libmicrohttpd hiredis jansson sqlite3 INIReader
SANFLAG := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
CPPFLAGS_ALL := -D_GNU_SOURCE -I. -I$(B)/gen $(CPPFLAGS)
CFLAGS_ALL   := $(WARN) $(WERROR) $(CFLAGS) $(SANFLAG) -pthread
LDFLAGS_ALL  := $(LDFLAGS) $(SANFLAG) -pthread
LDLIBS       := -lmicrohttpd -lhiredis -ljansson -lsqlite3 -linih

LOCK_SRC   := $(wildcard lock/*.c)
DB_SRC     := $(wildcard db/*.c)
SERVER_SRC := $(wildcard server/*.c server/*/*.c)
TEST_SRC   := $(wildcard tests/test_*.c)
HELP_SRC   := $(wildcard tests/support/*.c)
TEXT       := $(wildcard lock/*.lua db/*.sql static/*)

obj         = $(patsubst %.c,$(B)/%.o,$(1))
LOCK_OBJ   := $(call obj,$(LOCK_SRC))
DB_OBJ     := $(call obj,$(DB_SRC))
SERVER_OBJ := $(call obj,$(SERVER_SRC))
HELP_OBJ   := $(call obj,$(HELP_SRC))
GEN        := $(patsubst %,$(B)/gen/%.inc,$(TEXT))
TESTS      := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRC))

BUILD_DEPS := gcc make pkg-config libc6-dev libmicrohttpd-dev libhiredis-dev \
              libjansson-dev libsqlite3-dev libinih-dev redis-server
DEMO_DEPS  := $(BUILD_DEPS) wrk curl jq
TEST_DEPS  := $(DEMO_DEPS) perl libcmocka-dev sqlite3
LINT_DEPS  := $(TEST_DEPS) clang clang-format clang-tidy cppcheck shellcheck

.PHONY: all deps demo test test-san lint loadtest clean lint-deps test-binaries
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/stockade $(B)/libdlock.a

$(B)/stockade: $(SERVER_OBJ) $(B)/libdlock.a $(DB_OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LDLIBS)

$(B)/libdlock.a: $(LOCK_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/%.o: %.c $(GEN)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# A text file as the C string literal it is included as.
$(B)/gen/%.inc: %
	@mkdir -p $(@D)
	$(Q)sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $< >$@

# A test binary gets everything but main().
$(B)/tests/%: $(B)/tests/%.o $(HELP_OBJ) $(B)/libdlock.a $(DB_OBJ) \
              $(filter-out $(B)/server/main.o,$(SERVER_OBJ))
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(B)/libdlock.a $(LDLIBS) -lcmocka

test-binaries: $(TESTS)

# Packages first, then make anew: this make was read before they were there.
PARALLEL := $(MAKE) -s --no-print-directory -j$(shell nproc)

deps:
	@.ci/deps $(BUILD_DEPS)

lint-deps:
	@.ci/deps $(LINT_DEPS)

demo:
	@.ci/deps $(DEMO_DEPS)
	@$(PARALLEL) all
	@loadtest/demo

# What was said to make, LOCK=none and the like, is for the runner, which knows
# the names; but for what is make's own.
loadtest:
	@.ci/deps $(DEMO_DEPS)
	@$(PARALLEL) all
	@loadtest/run $(filter-out B=% CC=% CFLAGS=% SAN=% V=% WERROR=%,$(MAKEOVERRIDES))

test:
	@.ci/deps $(TEST_DEPS)
	@tests/run

test-san:
	@.ci/deps $(TEST_DEPS)
	@SAN=address,undefined tests/run; a=$$?; \
	SAN=thread tests/run && [ $$a = 0 ]

lint:
	@.ci/deps $(LINT_DEPS)
	@$(PARALLEL) $(GEN)
	@CPPFLAGS_ALL='$(CPPFLAGS_ALL)' tests/lint

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
