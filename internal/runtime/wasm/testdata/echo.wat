;; A program by CGI: answers with its environment, each variable ended by a NUL, an
;; empty line, and the body of the request, piece by piece.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 64) "Content-Type: application/octet-stream\n\n")
  (data (i32.const 128) "\n\n")
  (func $out (param $at i32) (param $size i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $size))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start") (local $n i32)
    (call $out (i32.const 64) (i32.const 40))
    (drop (call $sizes (i32.const 16) (i32.const 20)))
    (drop (call $environ (i32.const 1024) (i32.const 65536)))
    (call $out (i32.const 65536) (i32.load (i32.const 20)))
    (call $out (i32.const 128) (i32.const 2))
    (block $end
      (loop $more
        (i32.store (i32.const 0) (i32.const 131072))
        (i32.store (i32.const 4) (i32.const 32768))
        (br_if $end (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (local.set $n (i32.load (i32.const 8)))
        (br_if $end (i32.eqz (local.get $n)))
        (call $out (i32.const 131072) (local.get $n))
        (br $more)))))
