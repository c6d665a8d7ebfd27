# SPDX-License-Identifier: BSD-3-Clause
if !SANITIZER
check_SCRIPTS += tests/words/check_words.sh tests/words/check_promises.sh
TESTS += tests/words/check_words.sh tests/words/check_promises.sh
endif
EXTRA_DIST += tests/words/words tests/words/check_words.sh tests/words/check_promises.sh
