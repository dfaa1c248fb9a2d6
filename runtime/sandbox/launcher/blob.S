/* The launcher's executable, as bytes of the library (see main.c). */
	.section .rodata
	.global launcher_image
	.global launcher_image_end
	.hidden launcher_image
	.hidden launcher_image_end
	.balign 16
launcher_image:
	.incbin LAUNCHER
launcher_image_end:
	.section .note.GNU-stack,"",%progbits
