"""Operations: a request that is checked, what it is asked with, and what it is answered from."""
