// Regions from Go, through cgo.
//
//	CGO_CFLAGS="-I$(python3 -c 'import headway; print(headway.get_include())')" go build regions.go
//	headway stat -- ./regions
//
// A region belongs to a thread of the kernel, and a goroutine may move from one to another at any call: so it is locked to
// its thread from before the region begins until it has ended. A call through cgo takes some 40 ns; mark what is much
// longer than that.
package main

/*
#cgo LDFLAGS: -pthread
#include <stdlib.h>
#include <headway.h>
static headway_tag_t noneffective_tag(const char *name) { return headway_tag(name); }
static headway_tag_t poll_tag(const char *name) { return headway_poll_tag(name); }
static headway_tag_t state_tag(const char *name) { return headway_state_tag(name); }
static void set(headway_tag_t tag) { headway_set_noneffective(tag); }
static void clear(void) { headway_clear_noneffective(); }
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Tag is the number of a state.
type Tag C.headway_tag_t

// Noneffective gives the tag of the state noneffective.NAME; keep it.
func Noneffective(name string) Tag {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return Tag(C.noneffective_tag(text))
}

// Poll gives the tag of the state poll.NAME.
func Poll(name string) Tag {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return Tag(C.poll_tag(text))
}

// State gives the tag of the state user.NAME: progress, with a name.
func State(name string) Tag {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return Tag(C.state_tag(text))
}

// In calls a function in the region.
func (tag Tag) In(body func()) {
	runtime.LockOSThread()
	C.set(C.headway_tag_t(tag))
	defer func() {
		C.clear()
		runtime.UnlockOSThread()
	}()
	body()
}

var sink uint64

func work(n uint64) {
	for i := uint64(0); i < n; i++ {
		sink += i
	}
}

func main() {
	parse, ring, draw := Noneffective("parse"), Poll("ring"), State("draw")
	for i := 0; i < 500; i++ {
		parse.In(func() { work(400000) })
		ring.In(func() { work(100000) })
		draw.In(func() { work(500000) })
	}
}
