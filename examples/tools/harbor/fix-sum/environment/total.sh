#!/bin/bash
total=0
for number in "$@"; do total=$number; done
echo "$total"
