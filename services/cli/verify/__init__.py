"""`noetlctl verify`: which histories, the verdict, and the read model beside them."""
