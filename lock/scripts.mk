# The Lua scripts of lock/: what each is put together from, in this order.
# NAME.script.inc is made of it, which C includes: the text and its SHA-1, by which
# a server is asked for it.

# One Redis server (node.c), and what multi and redlock need besides.
lua_acquire        := acquire
lua_release        := wake_all release
lua_force          := wake_all force
lua_renew          := wake_all renew
lua_inspect        := inspect
lua_quorum_fence   := quorum_fence
lua_server_age     := server_age

lua_fenced_acquire := waiters waiters_ask acquire
lua_fenced_release := waiters waiters_end release
lua_fenced_force   := waiters force
lua_fenced_renew   := waiters renew
lua_fenced_leave   := waiters waiters_leave
lua_fenced_list    := waiters waiters_list

lua_fair_acquire   := fair_queue fair_turn acquire
lua_fair_release   := fair_queue waiters_end release
lua_fair_force     := fair_queue force
lua_fair_renew     := fair_queue renew
lua_fair_leave     := fair_queue waiters_leave
lua_fair_list      := fair_queue waiters_list

# The textbook locks.
lua_setnx_expire      := setnx_expire
lua_token_release     := token_release
lua_token_renew       := token_renew
lua_reentrant_take    := reentrant_take
lua_reentrant_renew   := wake_nobody renew
lua_reentrant_release := reentrant_release

SCRIPTS := $(patsubst lua_%,%,$(filter lua_%,$(.VARIABLES)))

script_inc = $(B)/gen/lock/$(1).script.inc
SCRIPT_INC := $(foreach name,$(sort $(SCRIPTS)),$(call script_inc,$(name)))

define script_parts
$(B)/gen/lock/$(1).lua: $(patsubst %,lock/%.lua,$(lua_$(1)))
endef
$(foreach name,$(SCRIPTS),$(eval $(call script_parts,$(name))))

# Without comments: a server need not keep them.
$(B)/gen/lock/%.lua: lock/scripts.mk
	@mkdir -p $(@D)
	$(Q)sed -e '/^ *--/d' -e '/^ *$$/d' $(filter %.lua,$^) >$@

# What initializes a struct dlock_script.
$(B)/gen/lock/%.script.inc: $(B)/gen/lock/%.lua
	$(Q){ echo ".sha = \"$$(sha1sum <$< | cut -c 1-40)\","; \
	      echo '.text ='; $(TEXT_TO_C) $<; } >$@

# All of them, for the test that asks a server.
$(B)/gen/lock/scripts.inc: $(SCRIPT_INC)
	$(Q){ $(foreach name,$(sort $(SCRIPTS)), \
	          echo '{"$(name)", {'; echo '#include "lock/$(name).script.inc"'; \
	          echo '}},';) } >$@
