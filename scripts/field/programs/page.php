<?php
usleep((int) getenv("PAUSE") * 1000);
echo str_repeat("x", 400);
