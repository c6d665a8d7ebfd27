/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup.pml -- the allocation table's wait-free look-up against a writer, for spin
 *
 * One top entry covers 8 units; a split node has 2 entries of half the range, a slots node 2 slots. So entries are
 * of 8, 4 and 2 units, and a third start splits, also two levels at once. There are 2 slots nodes, 2 split nodes, and 3
 * or 4 records: freed ones are reused at once, nodes at the other level too. An allocation without a free node is refused.
 *
 * Here an entry may hold a single record; the table does not use that.
 *
 * Every load of the reader and every store of a writer that a reader can observe is a step of its own; a writer's private
 * state changes within such a step. spin's memory is sequentially consistent: orders.py covers the rest.
 *
 * A generation has no number here: a reader compares two loads of one record's generation, so it matters only whether
 * the generation changed in between (`changed`), and whether it is odd (`alive`). That is the meaning of "never used
 * twice", and makes the states of endless allocations and frees finite.
 *
 * A reader stores nothing: a proof for one holds for any number. One lock serialises the writers: two differ from
 * one only where the lock is released half-way (MUTANT 7).
 *
 * The reader tries the `before` of the last entry on its way only, so a split node is empty when all its words are zero:
 * an allocation that reaches into it keeps it (MUTANT 12).
 *
 * Switches, besides MUTANT (each has its number where it acts; check_model.sh names them):
 *   RANGES, ADDRESS  ranges of allocations; address of the look-up
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef RANGES
#define RANGES 2
#endif
#if RANGES == 1
#define RECORDS 4
#else
#define RECORDS 3
#endif

/* An entry's word: `before` in the low 3 bits; `inside` is 0, a record 1..4, a slots node 5..6, a split node 8..9. */
#define WORD(before, inside) ((before) + 8 * (inside))
#define BEFORE(word)	     ((word) & 7)
#define INSIDE(word)	     ((word) >> 3)
#define IS_RECORD(inside)    ((inside) >= 1 && (inside) <= 4)
#define IS_SLOTS(inside)     ((inside) == 5 || (inside) == 6)
#define IS_SPLIT(inside)     ((inside) >= 8)
/* A slot's word: the record, and the offset in the entry's range at which it begins. */
#define SLOT(record, offset) ((record) + 8 * (offset))
/* Where the entries of a split node (by its `inside`), the slots of a slots node are. */
#define ENTRY(inside, i)     (1 + 2 * ((inside) - 8) + (i))
#define PLACE(inside, i)     (2 * ((inside) - 5) + (i))

byte entry[5]; /* entry[0] is the top one */
byte slot[4];
byte base[RECORDS + 1], size[RECORDS + 1];
bit alive[RECORDS + 1];

/* The writers' own: owners of units, records and nodes in use, the slots node that a split node keeps. */
byte owner[8];
bit record_used[RECORDS + 1], slots_used[2], split_used[2], locked;
byte kept[2];

/* For assertions and for fewer states; except for `changed` (see above) no look-up depends on it. */
bit allocated[RECORDS + 1];
byte whole[READERS];   /* the record that has contained the address, alive, since the look-up began */
byte tracked[READERS]; /* the record that the reader copies */
bit changed[READERS];
byte within[READERS];  /* the node that a reader will load from next */

#define STARTS(x)	(owner[x] && base[owner[x]] == (x))
#define COVERS(x)	(b <= (x) && (x) < b + n)
#define STRICTLY(lo, width) (b > (lo) && b < (lo) + (width))

/* The contents of an unused record or node without a reader are invisible: its next user fills it first. It is zeroed,
 * so that states which differ in nothing else are one. */
#if READERS == 2
#define IN_NODE(inside)	  (within[0] == (inside) || within[1] == (inside))
#define IN_RECORD(record) (tracked[0] == (record) || tracked[1] == (record))
#else
#define IN_NODE(inside)	  (within[0] == (inside))
#define IN_RECORD(record) (tracked[0] == (record))
#endif

inline forget_node(inside)
{
	if
	:: IS_SLOTS(inside) && !slots_used[(inside) - 5] && !IN_NODE(inside) ->
		slot[PLACE(inside, 0)] = 0;
		slot[PLACE(inside, 1)] = 0
	:: IS_SPLIT(inside) && !split_used[(inside) - 8] && !IN_NODE(inside) ->
		entry[ENTRY(inside, 0)] = 0;
		entry[ENTRY(inside, 1)] = 0
	:: else
	fi
}

inline forget_record(record)
{
	if
	:: (record) && !record_used[record] && !IN_RECORD(record) ->
		base[record] = 0;
		size[record] = 0
	:: else
	fi
}

/* ---- the reader ---- */

/* A copy that the second generation load will reject anyway is all the same, whatever it holds. */
#if MUTANT == 1 || MUTANT == 6
#define forget_copy() skip
#else
#define forget_copy() \
	if \
	:: changed[me] -> true_base = 0; true_size = 0; torn = 0 \
	:: else \
	fi
#endif

/* Four loads, four steps: the generation, two fields, the generation again. Kept with the copy: the record's
 * true fields in the first generation, and whether a field of another generation was loaded. */
inline validate(record)
{
	if
	:: (record) == 0
	:: else ->
		d_step {
			ok = alive[record];
			if
			:: ok ->
				tracked[me] = record;
				changed[me] = 0;
				true_base = base[record];
				true_size = size[record]
			:: else
			fi
		}
		if
		:: !ok
		:: else ->
			d_step { torn = base[record] != true_base; forget_copy() }
			d_step { torn = torn || size[record] != true_size; forget_copy() }
			d_step {
#if MUTANT == 1 /* second generation check left out */
				skip;
#elif MUTANT == 6 /* generation reused: the next life's looks the same */
				ok = alive[record];
#else
				ok = alive[record] && !changed[me];
#endif
				assert(!ok || !torn);
				ok = ok && true_base <= ADDRESS && ADDRESS < true_base + true_size;
				answer = (ok -> record : 0);
				tracked[me] = 0;
				changed[me] = 0;
				forget_record((record));
				true_base = 0;
				true_size = 0;
				torn = 0
			}
		fi
	fi
}

inline look_at_slot(i)
{
	seen = slot[PLACE(node, i)];
	if
	:: seen && (seen >> 3) <= ADDRESS % length && (best == 0 || (seen >> 3) >= (best >> 3)) ->
#if MUTANT == 10 /* the first start at or below, not the highest */
		best = (best -> best : seen);
#else
		best = seen;
#endif
	:: else
	fi;
	seen = 0
}

inline leave_node()
{
	seen = node;
	node = 0;
	within[me] = 0;
	forget_node(seen);
	seen = 0
}

/* One load of an entry's word, and its meaning to the reader. */
inline load_entry(e)
{
	seen = entry[e];
	before = BEFORE(seen);
	best = (IS_RECORD(INSIDE(seen)) -> INSIDE(seen) : 0);
	seen = (best -> 0 : INSIDE(seen));
#if MUTANT == 11 /* the reader trusts that the nodes end where the address's bits do */
	assert(length > 2 || !IS_SPLIT(seen));
#endif
	/* Only a recycled node can lead further down than the address has bits: there the reader stops. */
	seen = (length == 2 && IS_SPLIT(seen) -> 0 : seen);
	within[me] = seen;
	forget_node(node);
	node = seen;
	length = (node -> length : 0);
	seen = 0
}

#ifndef ADDRESS
#define ADDRESS 2
#endif

proctype reader(byte me)
{
	byte length, node, before, best, seen, answer;
	byte true_base, true_size;
	bit ok, torn;

end:	do
	:: d_step {
		whole[me] = (allocated[owner[ADDRESS]] -> owner[ADDRESS] : 0);
		length = 8;
		load_entry(0)
	   }
	   do
	   :: IS_SPLIT(node) ->
		d_step {
			length = length / 2;
			load_entry(ENTRY(node, (ADDRESS / length) % 2))
		}
	   :: else -> break
	   od;
	   if
	   :: IS_SLOTS(node) ->
		d_step { look_at_slot(0) }
		d_step { look_at_slot(1); leave_node(); best = best & 7; length = 0 }
#if MUTANT == 3 /* no try of `before` after a candidate that failed */
		before = 0;
#endif
	   :: else
	   fi;
	   validate(best);
	   best = 0;
	   if
	   :: !ok -> validate(before)
	   :: else
	   fi;
	   d_step {
		assert(whole[me] == 0 || answer == whole[me]);
		whole[me] = 0;
		length = 0;
		before = 0;
		answer = 0;
		ok = 0
	   }
	od
}

/* ---- the writer, with the lock held ---- */

/* Either node may come. Two that are free, with no reader in them, differ in nothing: then the first will do. */
inline take_slots(k)
{
	if
	:: d_step { !slots_used[0] -> slots_used[0] = 1; k = 5 }
	:: d_step { !slots_used[1] && (slots_used[0] || IN_NODE(5) || IN_NODE(6)) -> slots_used[1] = 1; k = 6 }
	fi
}

inline take_split(k)
{
	if
	:: d_step { !split_used[0] -> split_used[0] = 1; k = 8 }
	:: d_step { !split_used[1] && (split_used[0] || IN_NODE(8) || IN_NODE(9)) -> split_used[1] = 1; k = 9 }
	fi
}

/* How many starts lie inside [lo, lo + 4), after its first unit. */
#define STARTS_INSIDE(lo) (STARTS((lo) + 1) + STARTS((lo) + 2) + STARTS((lo) + 3))

/* Fills a split node that is to divide [lo, lo + 4): in entries of 2 units only one start fits. */
inline fill_low_split(s, lo)
{
	entry[ENTRY(s, 0)] = WORD(owner[lo], (STARTS((lo) + 1) -> owner[(lo) + 1] : 0));
	entry[ENTRY(s, 1)] = WORD(owner[(lo) + 2], (STARTS((lo) + 3) -> owner[(lo) + 3] : 0))
}

inline first_start_after(from)
{
	x = from + 1;
	do
	:: !STARTS(x) -> x++
	:: else -> break
	od
}

/* Fills entry i of the split node s that is to divide [0, 8). */
inline fill_entry(s, i)
{
	if
	:: STARTS_INSIDE(4 * i) == 0 -> entry[ENTRY(s, i)] = WORD(owner[4 * i], 0)
	:: STARTS_INSIDE(4 * i) == 1 ->
		d_step {
			first_start_after(4 * i);
			entry[ENTRY(s, i)] = WORD(owner[4 * i], owner[x]);
			x = 0;
		}
	:: STARTS_INSIDE(4 * i) == 2 ->
		atomic { take_slots(k) }
		d_step { first_start_after(4 * i); slot[PLACE(k, 0)] = SLOT(owner[x], x % 4) }
		d_step { first_start_after(x); slot[PLACE(k, 1)] = SLOT(owner[x], x % 4); x = 0 }
		d_step { entry[ENTRY(s, i)] = WORD(owner[4 * i], k); k = 0 }
	:: STARTS_INSIDE(4 * i) == 3 ->
		atomic { take_split(k) }
		fill_low_split(k, 4 * i);
		d_step { entry[ENTRY(s, i)] = WORD(owner[4 * i], k); k = 0 }
	fi
}

/* `old` is the full slots node, `s` the new split node: old stays as it is, for the readers that are in it. */
inline keep_old(s, old)
{
	d_step { kept[s - 8] = old }
#if MUTANT == 5 /* old slots node cleared at the split */
	slot[PLACE(old, 0)] = 0;
	slot[PLACE(old, 1)] = 0
#elif MUTANT == 9 /* old slots node recycled at the split */
	d_step { slots_used[old - 5] = 0; kept[s - 8] = 0 }
#else
	skip
#endif
}

/* Puts r, which begins inside the range [lo, lo + width) of entry e, where there is no split node. */
inline insert(e, lo, width, kind)
{
	if
	:: kind == 0 -> entry[e] = WORD(BEFORE(entry[e]), r)
	:: IS_RECORD(kind) ->
		atomic { take_slots(k); slot[PLACE(k, 0)] = SLOT(kind, base[kind] - lo) }
		slot[PLACE(k, 1)] = SLOT(r, b - lo);
		d_step { entry[e] = WORD(BEFORE(entry[e]), k); k = 0 }
	:: d_step { IS_SLOTS(kind) && slot[PLACE(kind, 0)] == 0 -> slot[PLACE(kind, 0)] = SLOT(r, b - lo) }
	:: d_step { IS_SLOTS(kind) && slot[PLACE(kind, 0)] != 0 && slot[PLACE(kind, 1)] == 0 ->
		slot[PLACE(kind, 1)] = SLOT(r, b - lo) }
	:: atomic { IS_SLOTS(kind) && slot[PLACE(kind, 0)] != 0 && slot[PLACE(kind, 1)] != 0 -> take_split(s) }
		if
		:: width == 8 ->
			fill_entry(s, 0);
			fill_entry(s, 1)
		:: else -> fill_low_split(s, lo)
		fi;
		keep_old(s, kind);
		d_step { entry[e] = WORD(BEFORE(entry[e]), s); s = 0 }
	fi
}

/* Whether r can be linked without running out of nodes half-way; owner[] has r already. */
#define FREE_SLOTS (2 - slots_used[0] - slots_used[1])
#define FREE_SPLIT (2 - split_used[0] - split_used[1])
#define FULL(e)	   (slot[PLACE(INSIDE(entry[e]), 0)] && slot[PLACE(INSIDE(entry[e]), 1)])
#define NEED_2(lo) (STARTS_INSIDE(lo) == 2)
#define NEED_3(lo) (STARTS_INSIDE(lo) == 3)

inline check_nodes()
{
	x = 0;
	if
	:: b != 0 && IS_SPLIT(INSIDE(entry[0])) -> x = ENTRY(INSIDE(entry[0]), b / 4)
	:: else
	fi;
	if
	:: b == 0 || (x && (b == 4 || IS_SPLIT(INSIDE(entry[x])))) -> ok = 1
	:: else ->
		if
		:: IS_RECORD(INSIDE(entry[x])) -> ok = FREE_SLOTS >= 1
		:: IS_SLOTS(INSIDE(entry[x])) ->
			if
			:: !FULL(x) -> ok = 1
			:: FULL(x) && x -> ok = FREE_SPLIT >= 1
			:: else ->
				ok = FREE_SPLIT >= 1 + NEED_3(0) + NEED_3(4) && FREE_SLOTS >= NEED_2(0) + NEED_2(4)
			fi
		:: else -> ok = 1
		fi
	fi;
	x = 0
}

inline generation_changes(record, odd)
{
	alive[record] = odd;
	changed[0] = changed[0] || tracked[0] == record;
#if READERS == 2
	changed[1] = changed[1] || tracked[1] == record;
#endif
}

inline own(record)
{
	y = b;
	do
	:: y < b + n -> owner[y] = record; y++
	:: else -> break
	od;
	y = 0
}

inline set_before(e, lo)
{
	if
	:: COVERS(lo) -> entry[e] = WORD(r, INSIDE(entry[e]))
	:: else
	fi
}

inline link_high(i)
{
	d_step { set_before(ENTRY(t, i), 4 * i); u = INSIDE(entry[ENTRY(t, i)]) }
	if
	:: IS_SPLIT(u) ->
		set_before(ENTRY(u, 0), 4 * i);
		set_before(ENTRY(u, 1), 4 * i + 2);
		if
		:: STRICTLY(4 * i, 2) -> entry[ENTRY(u, 0)] = WORD(BEFORE(entry[ENTRY(u, 0)]), r)
		:: STRICTLY(4 * i + 2, 2) -> entry[ENTRY(u, 1)] = WORD(BEFORE(entry[ENTRY(u, 1)]), r)
		:: else
		fi
	:: else ->
		if
		:: STRICTLY(4 * i, 4) -> insert(ENTRY(t, i), 4 * i, 4, u)
		:: else
		fi
	fi;
	u = 0
}

/* The first step of an allocation, the store of `base`, is in writer(). */
inline allocation()
{
#if MUTANT == 8 /* generation odd before the fields are there */
	d_step { generation_changes(r, 1) }
	size[r] = n;
#else
	size[r] = n;
	d_step { generation_changes(r, 1) }
#endif
	set_before(0, 0);
	if
	:: IS_SPLIT(t) ->
		link_high(0);
		link_high(1)
	:: else ->
		if
		:: STRICTLY(0, 8) -> insert(0, 0, 8, t)
		:: else
		fi
	fi
}

inline clear_before(e, lo)
{
	if
	:: COVERS(lo) -> entry[e] = WORD(0, INSIDE(entry[e]))
	:: else
	fi
}

/* Takes r out of a record's place or a slots node at entry e; a node that is empty then is recycled. */
inline take_out(e, kind)
{
	if
	:: kind && kind == r -> entry[e] = WORD(BEFORE(entry[e]), 0)
	:: IS_SLOTS(kind) ->
		d_step {
			if
			:: (slot[PLACE(kind, 0)] & 7) == r -> slot[PLACE(kind, 0)] = 0
			:: (slot[PLACE(kind, 1)] & 7) == r -> slot[PLACE(kind, 1)] = 0
			:: else
			fi;
			x = (slot[PLACE(kind, 0)] != 0) + 2 * (slot[PLACE(kind, 1)] != 0)
		}
#if MUTANT == 4 /* slot moved while its allocation is live */
		if
		:: x == 2 ->
			slot[PLACE(kind, 0)] = slot[PLACE(kind, 1)];
			slot[PLACE(kind, 1)] = 0
		:: else
		fi;
#endif
		if
		:: x == 0 -> d_step { entry[e] = WORD(BEFORE(entry[e]), 0); slots_used[kind - 5] = 0 }
#if MUTANT == 2 /* node recycled while a live allocation is in it */
		:: x == 1 || x == 2 ->
			d_step {
				entry[e] = WORD(BEFORE(entry[e]), slot[PLACE(kind, x - 1)] & 7);
				slots_used[kind - 5] = 0
			}
#endif
		:: else
		fi;
		x = 0
	:: else
	fi
}

#define STARTS_OF_OTHERS(at) (STARTS(at) && owner[at] != r)
#if MUTANT == 12 /* a split node is empty when no live allocation begins inside */
#define LOW_EMPTY(s, lo) !(STARTS_OF_OTHERS((lo) + 1) || STARTS_OF_OTHERS((lo) + 2) || STARTS_OF_OTHERS((lo) + 3))
#define HIGH_EMPTY(s)	 (LOW_EMPTY(s, 0) && LOW_EMPTY(s, 4) && !STARTS_OF_OTHERS(4))
#else
#define LOW_EMPTY(s, lo) (entry[ENTRY(s, 0)] == 0 && entry[ENTRY(s, 1)] == 0)
#define HIGH_EMPTY(s)	 LOW_EMPTY(s, 0)
#endif

inline recycle_split(e, s)
{
	d_step {
		entry[e] = WORD(BEFORE(entry[e]), 0);
		split_used[s - 8] = 0;
		if
		:: kept[s - 8] -> slots_used[kept[s - 8] - 5] = 0; forget_node(kept[s - 8]); kept[s - 8] = 0
		:: else
		fi;
		forget_node(s)
	}
}

inline unlink_high(i)
{
	d_step { clear_before(ENTRY(t, i), 4 * i); u = INSIDE(entry[ENTRY(t, i)]) }
	if
	:: IS_SPLIT(u) ->
		clear_before(ENTRY(u, 0), 4 * i);
		clear_before(ENTRY(u, 1), 4 * i + 2);
		if
		:: STRICTLY(4 * i, 2) -> entry[ENTRY(u, 0)] = WORD(BEFORE(entry[ENTRY(u, 0)]), 0)
		:: STRICTLY(4 * i + 2, 2) -> entry[ENTRY(u, 1)] = WORD(BEFORE(entry[ENTRY(u, 1)]), 0)
		:: else
		fi;
		if
		:: LOW_EMPTY(u, 4 * i) -> recycle_split(ENTRY(t, i), u)
		:: else
		fi
	:: else -> take_out(ENTRY(t, i), u)
	fi;
	u = 0
}

inline unlink()
{
	clear_before(0, 0);
	if
	:: IS_SPLIT(t) ->
		unlink_high(0);
		unlink_high(1);
		if
		:: HIGH_EMPTY(t) -> recycle_split(0, t)
		:: else
		fi
	:: else -> take_out(0, t)
	fi
}

/* Ranges of allocations. RANGES 1: one lasts, at the range's first byte, and three begin in the other half: under it both
 * split nodes come and go, each now above, now below. 2: three begin in one half, so that two split nodes are made at once;
 * ranges overlap, and one reaches over the middle. 3: three in one half, one over them at the first byte. */
#if RANGES == 1
#define ALLOCATIONS :: ALLOCATION(5, 1) :: ALLOCATION(6, 1) :: ALLOCATION(7, 1)
#elif RANGES == 2
#define ALLOCATIONS :: ALLOCATION(1, 1) :: ALLOCATION(2, 1) :: ALLOCATION(2, 3) :: ALLOCATION(3, 1)
#elif RANGES == 3
#define ALLOCATIONS :: ALLOCATION(0, 3) :: ALLOCATION(1, 1) :: ALLOCATION(2, 1) :: ALLOCATION(3, 1)
#endif

#define FREE(x, first, length) (x < (first) || x >= (first) + (length) || !owner[x])
#define ALL_FREE(first, length) \
	(FREE(0, first, length) && FREE(1, first, length) && FREE(2, first, length) && FREE(3, first, length) && \
	 FREE(4, first, length) && FREE(5, first, length) && FREE(6, first, length) && FREE(7, first, length))
/* The lowest free record is taken, to keep the states few; ANY_RECORD: any. */
#ifdef ANY_RECORD
#define CHOOSES(record) (!record_used[record])
#else
#define CHOOSES(record) \
	(!record_used[record] && (record == 1 || record_used[1]) && (record <= 2 || record_used[2]) && \
	 (record <= 3 || record_used[3]))
#endif

/* Lock for an allocation, and its first step: the store of `base`. Without nodes for it nothing happens. */
#define ALLOCATION_IN(record, first, length) \
	d_step { \
		!locked && CHOOSES(record) && ALL_FREE(first, length) -> \
		r = record; \
		b = first; \
		n = length; \
		own(r); \
		base[r] = b; \
		check_nodes(); \
		if \
		:: ok -> locked = 1; record_used[r] = 1; t = INSIDE(entry[0]) \
		:: else -> own(0); forget_record(r); b = 0; n = 0; r = 0 \
		fi; \
		ok = 0 \
	}
#if RECORDS == 4
#define ALLOCATION(first, length) \
	ALLOCATION_IN(1, first, length) :: ALLOCATION_IN(2, first, length) :: ALLOCATION_IN(3, first, length) :: \
	ALLOCATION_IN(4, first, length)
#else
#define ALLOCATION(first, length) ALLOCATION_IN(1, first, length) :: ALLOCATION_IN(2, first, length) :: ALLOCATION_IN(3, first, length)
#endif

/* Lock for a free, and its first step: the generation changes. */
#define FREE_OF(record) \
	d_step { \
		!locked && allocated[record] -> \
		locked = 1; \
		r = record; \
		b = base[r]; \
		n = size[r]; \
		t = INSIDE(entry[0]); \
		generation_changes(r, 0); \
		allocated[r] = 0; \
		lasts_no_longer() \
	}

inline lasts_no_longer()
{
	whole[0] = (whole[0] == r -> 0 : whole[0]);
#if READERS == 2
	whole[1] = (whole[1] == r -> 0 : whole[1])
#endif
}

proctype writer()
{
	byte b, n, r, k, s, t, u, x, y;
	bit ok;

end:	do
	:: if
	   ALLOCATIONS
	   fi;
	   if
	   :: r ->
		allocation();
		d_step { allocated[r] = 1; b = 0; n = 0; r = 0; t = 0; locked = 0 }
	   :: else
	   fi
	:: if
#if RANGES != 1
	   :: FREE_OF(1)
#endif
	   :: FREE_OF(2)
	   :: FREE_OF(3)
#if RECORDS == 4
	   :: FREE_OF(4)
#endif
	   fi;
#if MUTANT == 7 /* record given back, and the lock let go, before it is unlinked */
	   d_step { own(0); record_used[r] = 0; locked = 0 }
	   d_step { !locked -> locked = 1; t = INSIDE(entry[0]) }
	   unlink();
	   d_step { b = 0; n = 0; r = 0; t = 0; locked = 0 }
#else
	   unlink();
	   d_step { own(0); record_used[r] = 0; forget_record(r); b = 0; n = 0; r = 0; t = 0; locked = 0 }
#endif
	od
}

init {
	atomic {
#if RANGES == 1
		owner[0] = 1;
		owner[1] = 1;
		owner[2] = 1;
		size[1] = 3;
		alive[1] = 1;
		allocated[1] = 1;
		record_used[1] = 1;
		entry[0] = WORD(1, 0);
#endif
		run reader(0);
#if READERS == 2
		run reader(1);
#endif
		run writer();
#if WRITERS == 2
		run writer()
#endif
	}
}
