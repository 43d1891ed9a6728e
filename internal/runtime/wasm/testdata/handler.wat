;; An exported handler (verge_v1). The first byte of the body says what it does:
;;   e  answer with how many requests this instance has had, the variables, and the rest
;;      of the body
;;   l  loop for ever            t  trap                 x  exit with 3
;;   m  take memory until there is no more, then trap
;;   s  recurse for ever         n  end without an answer
;;   g  write what is no CGI     o  give a place outside of its memory
;;   b  begin an answer, then trap
;;   c  say that the answer has 3 bytes, and write 5
;;   w  sleep for an hour
(module
  (import "verge_v1" "request" (func $request (param i32 i32) (result i32)))
  (import "verge_v1" "read" (func $read (param i32 i32) (result i32)))
  (import "verge_v1" "write" (func $write (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 8)
  (table 1 funcref)
  (global $count (mut i32) (i32.const 0))
  (data (i32.const 64) "Content-Type: text/plain\n\n")
  (data (i32.const 128) "this is no header\n\n")
  (data (i32.const 192) "Content-Type: text/plain\nContent-Length: 3\n\n12345")
  (data (i32.const 256) "ready\n")
  (func $deep (param i32) (result i32)
    (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "_initialize")
    (i32.store (i32.const 0) (i32.const 256))
    (i32.store (i32.const 4) (i32.const 6))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func $echo (local $n i32)
    (drop (call $write (i32.const 64) (i32.const 26)))
    (i32.store8 (i32.const 32) (i32.add (i32.const 48) (global.get $count)))
    (i32.store8 (i32.const 33) (i32.const 10))
    (drop (call $write (i32.const 32) (i32.const 2)))
    ;; asked with too little room it only says how much there is
    (local.set $n (call $request (i32.const 65536) (i32.const 1)))
    (if (i32.load8_u (i32.const 65536)) (then unreachable))
    (drop (call $request (i32.const 65536) (local.get $n)))
    (drop (call $write (i32.const 65536) (local.get $n)))
    (memory.fill (i32.const 65536) (i32.const 0) (local.get $n))
    (block $end
      (loop $more
        (local.set $n (call $read (i32.const 262144) (i32.const 65536)))
        (br_if $end (i32.le_s (local.get $n) (i32.const 0)))
        (drop (call $write (i32.const 262144) (local.get $n)))
        (br $more))))
  (func (export "verge_handle_v1") (local $do i32)
    (global.set $count (i32.add (global.get $count) (i32.const 1)))
    (drop (call $read (i32.const 16) (i32.const 1)))
    (local.set $do (i32.load8_u (i32.const 16)))
    (if (i32.eq (local.get $do) (i32.const 101)) (then (call $echo)))                      ;; e
    (if (i32.eq (local.get $do) (i32.const 108)) (then (loop $for (br $for))))             ;; l
    (if (i32.eq (local.get $do) (i32.const 116)) (then unreachable))                       ;; t
    (if (i32.eq (local.get $do) (i32.const 120)) (then (call $exit (i32.const 3))))        ;; x
    (if (i32.eq (local.get $do) (i32.const 109)) (then                                     ;; m
      (loop $grow
        (br_if $grow (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0))))
      unreachable))
    (if (i32.eq (local.get $do) (i32.const 115)) (then (drop (call $deep (i32.const 0))))) ;; s
    (if (i32.eq (local.get $do) (i32.const 103)) (then (drop (call $write (i32.const 128) (i32.const 19))))) ;; g
    (if (i32.eq (local.get $do) (i32.const 111)) (then (drop (call $write (i32.const -16) (i32.const 64))))) ;; o
    (if (i32.eq (local.get $do) (i32.const 98)) (then                                      ;; b
      (drop (call $write (i32.const 64) (i32.const 28)))
      unreachable))
    (if (i32.eq (local.get $do) (i32.const 99)) (then (drop (call $write (i32.const 192) (i32.const 49))))) ;; c
    (if (i32.eq (local.get $do) (i32.const 119)) (then                                     ;; w
      (i64.store (i32.const 512) (i64.const 0))
      (i64.store (i32.const 520) (i64.const 0))
      (i64.store (i32.const 528) (i64.const 0))
      (i64.store (i32.const 536) (i64.const 3600000000000))
      (i64.store (i32.const 544) (i64.const 0))
      (i64.store (i32.const 552) (i64.const 0))
      (drop (call $poll (i32.const 512) (i32.const 640) (i32.const 1) (i32.const 768)))))))
